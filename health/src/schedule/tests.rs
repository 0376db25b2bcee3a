//! Tests of the schedule.

use proptest::prelude::*;

use super::*;

const PERIOD: Duration = Duration::from_secs(10);

#[test]
fn intervals_stay_within_ten_percent_and_fill_that_range() {
    let start = Instant::now();
    let mut schedule = ProbeSchedule::new(1);
    let mut histogram = [0_u32; 20];
    let mut last = start;
    for _ in 0..20_000 {
        schedule.regular((), last, last, PERIOD);
        let (due, ()) = schedule.pop(last + PERIOD * 2).unwrap();
        let share = (due - last).as_secs_f64() / PERIOD.as_secs_f64();
        assert!((0.9..1.1).contains(&share), "interval of {share} periods");
        histogram[((share - 0.9) * 100.0) as usize] += 1;
        last = due;
    }
    // 1,000 expected in each hundredth of a period; 850 to 1,150 is five standard deviations.
    assert!(histogram.iter().all(|count| (850..1_150).contains(count)), "{histogram:?}");
    let mean = (last - start).as_secs_f64() / 20_000.0;
    assert!((9.98..10.02).contains(&mean), "mean interval {mean} s");
}

#[test]
fn equal_seeds_give_equal_jitter() {
    let now = Instant::now();
    let first = |seed| {
        let mut schedule = ProbeSchedule::new(seed);
        schedule.spread((), now, PERIOD);
        schedule.next().unwrap()
    };
    assert_eq!(first(7), first(7));
    assert_ne!(first(7), first(8));
}

#[test]
fn first_probes_are_spread_at_5000_per_second() {
    assert_eq!(first_spread(10_000, PERIOD), Duration::from_secs(2));
    assert_eq!(first_spread(3, PERIOD), Duration::from_micros(600));
    assert_eq!(first_spread(1_000_000, PERIOD), PERIOD);
}

#[test]
fn earliest_key_is_returned_first_and_not_early() {
    let now = Instant::now();
    let mut schedule = ProbeSchedule::new(1);
    for key in [30_u64, 10, 20] {
        schedule.at(key, now + Duration::from_secs(key));
    }
    assert_eq!(schedule.pop(now), None);
    assert_eq!(schedule.pop(now + Duration::from_secs(25)).map(|(_, key)| key), Some(10));
    assert_eq!(schedule.pop(now + Duration::from_secs(25)).map(|(_, key)| key), Some(20));
    assert_eq!(schedule.pop(now + Duration::from_secs(25)), None);
}

#[test]
fn confirmation_follows_a_tenth_of_the_period_later() {
    let start = Instant::now();
    let after = |millis| start + Duration::from_millis(millis);
    // A refusal after 1 ms at a period of 200 ms is confirmed a tenth of the period later.
    assert_eq!(confirmation(start, after(1), Duration::from_millis(200)), after(20));
    // At 10 s the pause is 200 ms; after a timeout there is none.
    assert_eq!(confirmation(start, after(1), PERIOD), after(200));
    assert_eq!(confirmation(start, after(4_000), PERIOD), after(4_000));
}

#[test]
fn retry_pause_doubles_up_to_the_period() {
    let start = Instant::now();
    let pauses: Vec<_> = [1, 2, 3, 6, 7, 255].map(|count| retry(start, start, PERIOD, count) - start).into();
    assert_eq!(pauses, [200, 400, 800, 6_400, 10_000, 10_000].map(Duration::from_millis));
}

#[test]
fn targets_keep_their_phase_after_a_long_stall() {
    let start = Instant::now();
    let now = start + Duration::from_secs(3_600);
    for second in 0..10 {
        let due = start + Duration::from_secs(second);
        let next = missed(due, now, PERIOD).unwrap();
        assert!(next > now && next <= now + PERIOD);
        assert_eq!((next - due).as_nanos() % PERIOD.as_nanos(), 0);
    }
    assert_eq!(missed(start, start + PERIOD, PERIOD), None);
}

proptest! {
    #[test]
    fn next_due_time_is_within_a_period_and_a_tenth(
        seed: u64, period in 50_u64..100_000, late in 0_u64..1_000_000,
    ) {
        let period = Duration::from_millis(period);
        let last = Instant::now();
        let now = last + Duration::from_millis(late);
        let mut schedule = ProbeSchedule::new(seed);
        schedule.regular((), last, now, period);
        let next = schedule.next().unwrap();
        prop_assert!(next >= now);
        prop_assert!(next <= now + period * 11 / 10);
    }

    #[test]
    fn every_key_is_returned_once(dues in proptest::collection::vec(0_u64..1_000, 0..50)) {
        let now = Instant::now();
        let mut schedule = ProbeSchedule::new(0);
        for (key, due) in dues.iter().enumerate() {
            schedule.at(key, now + Duration::from_millis(*due));
        }
        let mut seen: Vec<_> = std::iter::from_fn(|| schedule.pop(now + Duration::from_secs(1))).collect();
        prop_assert!(seen.is_sorted_by_key(|(at, _)| *at));
        seen.sort_by_key(|(_, key)| *key);
        prop_assert_eq!(seen.into_iter().map(|(_, key)| key).collect::<Vec<_>>(), (0..dues.len()).collect::<Vec<_>>());
    }
}

use std::collections::BTreeMap;

use fairway_model::SplitMix;
use proptest::prelude::*;

use super::*;

const TTL: Duration = Duration::from_secs(30);

/// Evidence on a clock of its own.
struct Stage {
    evidence: Evidence,
    now: Instant,
}

impl Stage {
    fn new() -> Self {
        let now = Instant::now();
        Self { evidence: Evidence::new(TTL, now), now }
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn query(&mut self, source: u64, proof: SourceProof, demand: u64) -> bool {
        self.weight(source, proof, demand).is_some()
    }

    fn weight(&mut self, source: u64, proof: SourceProof, demand: u64) -> Option<f64> {
        self.evidence.weight(&Query { source: Source(source), proof, demand: Demand(demand) }, self.now)
    }

    /// Lets `sources` proven sources bring `each` networks.
    fn with_proven(mut self, sources: u64, each: u64) -> Self {
        for number in 0..sources * each {
            assert!(self.query(number / each, SourceProof::Tcp, number));
        }
        self
    }

    /// Panics if a bound does not hold, or if a count is not that of the tables.
    fn check(&self, seed: u64) {
        let Evidence { sources, networks, .. } = &self.evidence;
        assert!(sources.len() <= self.evidence.sources_max, "seed {seed}");
        assert!(networks.len() <= self.evidence.networks_max, "seed {seed}");
        let mut brought: HashMap<Source, u32> = HashMap::new();
        for owner in networks.values().map(|network| network.owner) {
            *brought.entry(owner).or_default() += 1;
        }
        assert!(brought.keys().all(|source| sources.contains_key(source)), "seed {seed}");
        for (source, known) in sources {
            assert_eq!(brought.get(source).copied().unwrap_or(0), known.networks, "seed {seed}");
            assert!(known.networks <= NETWORKS_PER_SOURCE, "seed {seed}");
        }
    }
}

#[test]
fn query_over_udp_is_no_evidence_and_repeating_it_is_none() {
    let mut stage = Stage::new();
    for _ in 0..1_000 {
        stage.wait(1);
        assert!(!stage.query(1, SourceProof::None, 7));
    }
    assert_eq!((stage.evidence.networks(), stage.evidence.sources.len()), (0, 0), "it costs no memory");
}

#[test]
fn cookie_and_tcp_prove_a_source_for_two_days() {
    let mut stage = Stage::new();
    assert!(stage.query(1, SourceProof::Cookie, 7));
    assert!(stage.query(2, SourceProof::Tcp, 8));
    assert!(stage.query(2, SourceProof::None, 9), "the source is proven, so all its networks count");
    stage.wait(2 * 86_400 - 1);
    assert!(stage.query(2, SourceProof::None, 8));
    stage.wait(1);
    assert!(!stage.query(2, SourceProof::None, 10));
    stage.wait(3 * TTL.as_secs());
    stage.evidence.expire(stage.now);
    assert_eq!(stage.evidence.sources.len(), 0);
}

#[test]
fn query_without_the_cookie_of_its_source_is_forged() {
    let mut stage = Stage::new();
    stage.query(1, SourceProof::Cookie, 7);
    assert!(!stage.query(1, SourceProof::None, 8));
    assert!(!stage.query(1, SourceProof::None, 7), "nor does it say where the client is");
    assert!(stage.query(1, SourceProof::Tcp, 8), "TCP is no less than a cookie");
}

#[test]
fn source_brings_a_bounded_number_of_networks_and_keeps_the_first_ones() {
    let mut stage = Stage::new();
    let counted = (0..10_000).filter(|demand| stage.query(1, SourceProof::Tcp, *demand)).count();
    assert_eq!(counted, NETWORKS_PER_SOURCE as usize);
    assert!(stage.query(1, SourceProof::Tcp, 0));
    assert!(stage.query(2, SourceProof::Tcp, 20_000), "another source has its own share");
}

#[test]
fn networks_of_a_source_share_its_weight() {
    let mut stage = Stage::new().with_proven(1, 10);
    assert_eq!(stage.weight(0, SourceProof::Tcp, 3), Some(0.1));
    let repeated: Vec<_> = (0..1_000).map(|_| stage.weight(0, SourceProof::Tcp, 3)).collect();
    assert!(repeated.iter().all(|weight| *weight == Some(0.1)), "repeating a query is no proof");
    (0..10_000).for_each(|demand| _ = stage.query(0, SourceProof::Tcp, demand));
    assert_eq!(stage.weight(0, SourceProof::Tcp, 3), Some(1.0 / f64::from(NETWORKS_PER_SOURCE)));
    assert_eq!(stage.weight(1, SourceProof::Tcp, 20_000), Some(1.0));
}

#[test]
fn addresses_of_one_ipv6_network_are_one_source() {
    let source = |address: &str| Source::of(address.parse().unwrap());
    assert_eq!(source("2001:db8:0:1::1"), source("2001:db8:0:1f::2"));
    assert_ne!(source("2001:db8:0:100::1"), source("2001:db8:0:200::1"));
    assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
}

#[test]
fn query_of_an_unproven_source_is_no_evidence_even_of_a_known_network() {
    let mut stage = Stage::new().with_proven(90, 1);
    assert!(!stage.query(500, SourceProof::None, 7));
    assert!(!stage.query(500, SourceProof::None, 1_000));
    assert_eq!((stage.evidence.networks(), stage.evidence.is_known(Demand(1_000))), (90, false));
    assert!(stage.query(500, SourceProof::Tcp, 1_000), "it counts once its source is proven");
}

#[test]
fn networks_enter_at_a_bounded_rate() {
    let mut stage = Stage::new();
    let enter = |stage: &mut Stage, from: u64| {
        let entered = |number: &u64| stage.query(number / 200, SourceProof::Tcp, *number);
        (from..from + 5_000).filter(entered).count() as u32
    };
    assert_eq!(enter(&mut stage, 0), NEW_NETWORKS_PER_TTL);
    assert_eq!(enter(&mut stage, 10_000), 0);
    stage.wait(TTL.as_secs());
    assert_eq!(enter(&mut stage, 20_000), NEW_NETWORKS_PER_TTL);
}

#[test]
fn burst_is_forgotten_after_three_ttls() {
    let mut stage = Stage::new().with_proven(90, 1);
    for demand in 6_000..6_500 {
        stage.query(1_000, SourceProof::Tcp, demand);
    }
    for _ in 0..3 {
        stage.wait(TTL.as_secs() - 1);
        for number in 0..90 {
            stage.query(number, SourceProof::None, number);
        }
    }
    stage.wait(3);
    stage.evidence.expire(stage.now);
    assert_eq!(stage.evidence.networks(), 90);
}

/// One random schedule: honest sources that keep asking, and an attacker who mixes all that it can send.
fn run(seed: u64, with_attack: bool) -> Stage {
    let mut random = SplitMix::new(seed);
    let mut attack = SplitMix::new(!seed);
    let mut stage = Stage::new();
    let honest = 20 + random.below(80);
    for _ in 0..15 {
        stage.wait(random.below(TTL.as_secs()));
        for number in 0..honest {
            let proof = if number % 3 == 0 { SourceProof::Cookie } else { SourceProof::Tcp };
            stage.query(number, proof, number);
        }
        if with_attack {
            for _ in 0..attack.below(1_000) {
                let (source, demand) = (1_000 + attack.below(1 << 20), attack.below(1 << 20));
                stage.query(source, SourceProof::None, demand);
            }
        }
        if random.below(3) == 0 {
            stage.evidence.expire(stage.now);
        }
    }
    stage
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn bounds_hold_under_random_schedules(seed in any::<u64>()) {
        let mut random = SplitMix::new(seed);
        let mut stage = Stage::new();
        let (sources, demands) = (1 + random.below(2_000), 1 + random.below(50_000));
        for _ in 0..20 {
            for _ in 0..random.below(1_000) {
                let proof = [SourceProof::None, SourceProof::None, SourceProof::Cookie, SourceProof::Tcp][random.below(4) as usize];
                stage.query(random.below(sources), proof, random.below(demands));
            }
            stage.wait([0, 1, TTL.as_secs(), 86_400][random.below(4) as usize]);
            if random.below(2) == 0 {
                stage.evidence.expire(stage.now);
            }
            stage.check(seed);
        }
        stage.wait(2 * 86_400);
        stage.evidence.expire(stage.now);
        assert_eq!((stage.evidence.networks(), stage.evidence.sources.len()), (0, 0), "seed {seed}");
    }

    #[test]
    fn attacker_with_any_number_of_sources_changes_no_known_network(seed in any::<u64>()) {
        let (quiet, attacked) = (run(seed, false), run(seed, true));
        let known = |stage: &Stage| -> BTreeMap<_, _> {
            stage.evidence.networks.iter().map(|(demand, network)| (*demand, network.owner)).collect()
        };
        prop_assert_eq!(known(&quiet), known(&attacked), "seed {}", seed);
        attacked.check(seed);
    }

    #[test]
    fn tables_stay_bounded_with_any_number_of_proven_sources(seed in any::<u64>()) {
        let mut random = SplitMix::new(seed);
        let mut stage = Stage::new();
        (stage.evidence.sources_max, stage.evidence.networks_max) = (1_500, 2_500);
        for _ in 0..4 {
            let mut new = 0;
            for _ in 0..3_000 {
                let (source, demand) = (random.bits() >> 20, random.bits());
                new += u32::from(stage.query(source, SourceProof::Tcp, demand));
            }
            prop_assert!(new <= NEW_SOURCES_PER_TTL, "seed {}: {}", seed, new);
            stage.wait(TTL.as_secs());
        }
        stage.check(seed);
        let old = stage.evidence.sources.values().filter(|source| stage.now - source.seen > 3 * TTL).count();
        prop_assert_eq!(old, 0, "seed {}: the sources that were not seen for the longest time made room", seed);
    }
}

//! Most requests of one client, and who counts as one.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, DefaultClock},
    state::keyed::HashMapStateStore,
};

/// Most requests of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// Requests a second that go on and on. Default 50.
    pub per_second: NonZeroU32,
    /// Requests at once after a rest. Default 100.
    pub burst: NonZeroU32,
    /// Failed attempts to show who one is, a minute. Default 30.
    pub failures_per_minute: NonZeroU32,
    /// Connections open at once. Default 32.
    pub connections: usize,
}

impl Default for LimitSettings {
    fn default() -> Self {
        let some = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        Self { per_second: some(50), burst: some(100), failures_per_minute: some(30), connections: 32 }
    }
}

/// Who counts as one client: an IPv4 address, or an IPv6 network of 64 bits, which is what one site gets (RFC 6177).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(IpAddr);

impl From<IpAddr> for ClientKey {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => Self(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into()),
            v4 => Self(v4),
        }
    }
}

/// Counts the requests of clients, and their failures.
#[derive(Debug)]
pub struct Limiter {
    requests: Counted,
    failures: Counted,
}

impl Limiter {
    /// One that has seen nobody.
    pub fn new(settings: &LimitSettings) -> Self {
        let failures = Quota::per_minute(settings.failures_per_minute);
        let requests = Quota::per_second(settings.per_second).allow_burst(settings.burst);
        Self { requests: Counted::new(requests), failures: Counted::new(failures) }
    }

    /// Counts a request; if there are too many, tells how long to wait.
    pub fn request(&self, client: ClientKey) -> Result<(), Duration> {
        self.requests.count(client)
    }

    /// Counts a failed attempt to show who one is; if there are too many, tells how long to wait.
    pub fn failure(&self, client: ClientKey) -> Result<(), Duration> {
        self.failures.count(client)
    }
}

#[derive(Debug)]
struct Counted {
    limiter: RateLimiter<ClientKey, HashMapStateStore<ClientKey>, DefaultClock>,
    clock: DefaultClock,
    /// When those who have rested were last forgotten.
    swept: Mutex<Option<Instant>>,
}

impl Counted {
    fn new(quota: Quota) -> Self {
        Self { limiter: RateLimiter::hashmap(quota), clock: DefaultClock::default(), swept: Mutex::default() }
    }

    fn count(&self, client: ClientKey) -> Result<(), Duration> {
        let client = if self.limiter.len() < CLIENTS_MAX || self.sweep() { client } else { CROWD };
        self.limiter.check_key(&client).map_err(|until| until.wait_time_from(self.clock.now()))
    }

    /// Forgets those who have rested, at most once a second; tells whether there is room then.
    fn sweep(&self) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            self.limiter.retain_recent();
            *swept = Some(Instant::now());
        }
        self.limiter.len() < CLIENTS_MAX
    }
}

/// Most clients that are counted one by one, some 10 MB; all beyond share one count.
const CLIENTS_MAX: usize = 65_536;
/// Shortest time from one sweep to the next.
const SWEEP: Duration = Duration::from_secs(1);
/// Who is counted where there is no room: nobody connects from this address.
const CROWD: ClientKey = ClientKey(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientKey {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_site_is_one_client_however_its_addresses_are_written() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn whoever_asks_too_often_is_told_to_wait_and_others_are_not() {
        let one = NonZeroU32::MIN;
        let limiter = Limiter::new(&LimitSettings {
            per_second: one,
            burst: NonZeroU32::new(3).unwrap(),
            failures_per_minute: one,
            connections: 1,
        });
        for _ in 0..3 {
            assert_eq!(limiter.request(client("192.0.2.1")), Ok(()));
        }
        let wait = limiter.request(client("192.0.2.1")).unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        assert_eq!(limiter.request(client("192.0.2.2")), Ok(()));
        assert_eq!(limiter.failure(client("192.0.2.1")), Ok(()));
        assert!(limiter.failure(client("192.0.2.1")).unwrap_err() > Duration::from_secs(30));
    }

    #[test]
    fn at_the_bound_newcomers_share_one_count_and_those_who_are_known_do_not() {
        let settings =
            LimitSettings { per_second: NonZeroU32::MIN, burst: NonZeroU32::MIN, ..LimitSettings::default() };
        let limiter = Limiter::new(&settings);
        // A minute a request, so that nobody has rested when the bound is reached.
        let slow = Counted::new(Quota::per_hour(NonZeroU32::MIN));
        let number = |n: u32| ClientKey(IpAddr::V4(n.into()));
        for n in 0..u32::try_from(CLIENTS_MAX).unwrap() {
            assert_eq!(slow.count(number(n)), Ok(()));
        }
        assert_eq!(slow.count(number(1 << 31)), Ok(()), "the first of the crowd");
        assert!(slow.count(number((1 << 31) + 1)).is_err(), "the crowd has had its one");
        assert!(slow.limiter.len() <= CLIENTS_MAX + 1);
        assert_eq!(limiter.request(number(7)), Ok(()));
    }
}

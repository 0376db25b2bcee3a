//! Limits per client.

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

/// Limits per client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSettings {
    /// Sustained requests per second. Default 50.
    pub per_second: NonZeroU32,
    /// Burst of requests. Default 100.
    pub burst: NonZeroU32,
    /// Failed authentications per minute. Default 30.
    pub failures_per_minute: NonZeroU32,
    /// Concurrent connections. Default 32.
    pub connections: usize,
}

impl Default for LimitSettings {
    fn default() -> Self {
        let some = |count| NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
        Self { per_second: some(50), burst: some(100), failures_per_minute: some(30), connections: 32 }
    }
}

/// The key of one client: an IPv4 address, or an IPv6 network of 64 bits, the usual size of one network (RFC 6177).
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

/// Counts requests and failed authentications per client.
#[derive(Debug)]
pub struct Limiter {
    /// Requests.
    pub requests: Counter,
    /// Failed authentications.
    pub failures: Counter,
}

impl Limiter {
    /// Returns a limiter without clients.
    pub fn new(settings: &LimitSettings) -> Self {
        let failures = Quota::per_minute(settings.failures_per_minute);
        let requests = Quota::per_second(settings.per_second).allow_burst(settings.burst);
        Self { requests: Counter::new(requests), failures: Counter::new(failures) }
    }
}

/// Counts events of one kind per client.
#[derive(Debug)]
pub struct Counter {
    limiter: RateLimiter<ClientKey, HashMapStateStore<ClientKey>, DefaultClock>,
    clock: DefaultClock,
    /// Time when idle clients were last removed.
    swept: Mutex<Option<Instant>>,
}

impl Counter {
    fn new(quota: Quota) -> Self {
        Self { limiter: RateLimiter::hashmap(quota), clock: DefaultClock::default(), swept: Mutex::default() }
    }

    /// Counts an event. Returns the time to wait if there are too many.
    pub fn count(&self, client: ClientKey) -> Result<(), Duration> {
        let client = if self.limiter.len() < CLIENTS_MAX || self.sweep() { client } else { OVERFLOW };
        self.limiter.check_key(&client).map_err(|until| until.wait_time_from(self.clock.now()))
    }

    /// Removes idle clients, at most once a second. Returns true if there is space for another client.
    fn sweep(&self) -> bool {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            self.limiter.retain_recent();
            *swept = Some(Instant::now());
        }
        self.limiter.len() < CLIENTS_MAX
    }
}

/// Maximum number of clients with counters of their own, about 10 MB. All others share one count.
const CLIENTS_MAX: usize = 65_536;
/// Shortest time from one sweep to the next.
const SWEEP: Duration = Duration::from_secs(1);
/// The key of clients beyond [`CLIENTS_MAX`]. No client connects from this address.
const OVERFLOW: ClientKey = ClientKey(IpAddr::V6(Ipv6Addr::UNSPECIFIED));

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientKey {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn ipv6_network_is_one_client() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn client_over_the_limit_must_wait_and_others_not() {
        let one = NonZeroU32::MIN;
        let limiter = Limiter::new(&LimitSettings {
            per_second: one,
            burst: NonZeroU32::new(3).unwrap(),
            failures_per_minute: one,
            connections: 1,
        });
        for _ in 0..3 {
            assert_eq!(limiter.requests.count(client("192.0.2.1")), Ok(()));
        }
        let wait = limiter.requests.count(client("192.0.2.1")).unwrap_err();
        assert!(wait <= Duration::from_secs(1), "{wait:?}");
        assert_eq!(limiter.requests.count(client("192.0.2.2")), Ok(()));
        assert_eq!(limiter.failures.count(client("192.0.2.1")), Ok(()));
        assert!(limiter.failures.count(client("192.0.2.1")).unwrap_err() > Duration::from_secs(30));
    }

    #[test]
    fn clients_beyond_the_bound_share_one_count() {
        let settings =
            LimitSettings { per_second: NonZeroU32::MIN, burst: NonZeroU32::MIN, ..LimitSettings::default() };
        let limiter = Limiter::new(&settings);
        // One request per hour, so that no client is idle when the bound is reached.
        let slow = Counter::new(Quota::per_hour(NonZeroU32::MIN));
        let number = |n: u32| ClientKey(IpAddr::V4(n.into()));
        for n in 0..u32::try_from(CLIENTS_MAX).unwrap() {
            assert_eq!(slow.count(number(n)), Ok(()));
        }
        assert_eq!(slow.count(number(1 << 31)), Ok(()), "expected the first client beyond the bound to pass");
        assert!(
            slow.count(number((1 << 31) + 1)).is_err(),
            "expected the second client beyond the bound to share the count"
        );
        assert!(slow.limiter.len() <= CLIENTS_MAX + 1);
        assert_eq!(limiter.requests.count(number(7)), Ok(()));
    }
}

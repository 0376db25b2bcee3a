//! Looks up the addresses of one host name, by the resolvers of the system or by given ones.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use fairway_model::Name;
use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{
        op::ResponseCode,
        rr::{self, RData, RecordType},
    },
};

use crate::table::{Answer, HostTable, Lookup};

/// Settings of look-ups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolverSettings {
    /// Recursive resolvers; none means those of the system (`/etc/resolv.conf`).
    pub servers: Vec<SocketAddr>,
    /// Time for which the last good addresses of a name are used while look-ups fail; default a day.
    pub keep_for: Duration,
}

impl Default for ResolverSettings {
    fn default() -> Self {
        Self { servers: vec![], keep_for: Duration::from_secs(86_400) }
    }
}

/// Time after which one query to one resolver is sent again, to the next one.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Recursive resolvers that are asked.
#[derive(Clone)]
pub(crate) struct Resolver(Result<TokioResolver, String>);

impl Resolver {
    /// Returns one that asks these resolvers, or those of the system as they are configured now.
    pub(crate) fn new(servers: &[SocketAddr]) -> Self {
        let builder = if servers.is_empty() {
            TokioResolver::builder_tokio()
        } else {
            let config = ResolverConfig::from_parts(None, vec![], servers.iter().map(server).collect());
            let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
            builder.options_mut().use_hosts_file = ResolveHosts::Never;
            Ok(builder)
        };
        let built = builder.and_then(|mut builder| {
            let options: &mut ResolverOpts = builder.options_mut();
            // The table decides when a name is looked up again, and needs a fresh answer then.
            options.cache_size = 0;
            options.positive_max_ttl = Some(HostTable::PERIOD_MAX);
            options.negative_max_ttl = Some(Duration::ZERO);
            options.timeout = TIMEOUT;
            options.attempts = 2;
            options.edns0 = true;
            options.try_tcp_on_error = true;
            options.preserve_intermediates = true;
            builder.build()
        });
        Self(built.map_err(|error| format!("no resolver: {error}")))
    }

    /// Looks up both families of addresses at once.
    pub(crate) async fn look_up(&self, name: &Name) -> Lookup {
        let (v4, v6) = tokio::join!(self.answer(name, RecordType::A), self.answer(name, RecordType::AAAA));
        let ttl = v4.1.into_iter().chain(v6.1).min().unwrap_or_default();
        Lookup { answers: [v4.0, v6.0], ttl }
    }

    /// Returns the answer for one type, with its TTL if it has addresses.
    async fn answer(&self, name: &Name, rtype: RecordType) -> (Answer, Option<Duration>) {
        let failed = |cause: String| (Answer::Failed(cause), None);
        let resolver = match &self.0 {
            Ok(resolver) => resolver,
            Err(error) => return failed(error.clone()),
        };
        let host = match rr::Name::from_ascii(name.to_string()) {
            Ok(host) => host,
            Err(error) => return failed(error.to_string()),
        };
        match resolver.lookup(host, rtype).await {
            Ok(found) => {
                let addresses = found.answers().iter().filter_map(|record| match &record.data {
                    RData::A(a) => Some(IpAddr::from(a.0)),
                    RData::AAAA(aaaa) => Some(IpAddr::from(aaaa.0)),
                    _ => None,
                });
                let addresses: Vec<IpAddr> = addresses.collect();
                // Also of the CNAMEs on the way.
                let ttl = found.answers().iter().map(|record| record.ttl).min().filter(|_| !addresses.is_empty());
                (Answer::Addresses(addresses), ttl.map(|secs| Duration::from_secs(secs.into())))
            }
            Err(NetError::Dns(DnsError::NoRecordsFound(none))) => match none.response_code {
                ResponseCode::NoError => (Answer::Addresses(vec![]), None),
                ResponseCode::NXDomain => failed("the name does not exist (NXDOMAIN)".to_owned()),
                code => failed(format!("the resolver answers {code}")),
            },
            Err(error) => failed(error.to_string()),
        }
    }
}

fn server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}

//! The fence in front of every connection of a probe and of a load reader: decides if this server may connect to an address.
//!
//! A target may come from a tenant, over the API or the webhook. Without a fence, a tenant could reach what only this machine
//! reaches: loopback services, the metadata service of a cloud, this server itself. The decision is pure; it is made on the
//! address that a connection would go to, so after resolution.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::{Arc, PoisonError, RwLock},
};

use fairway_model::{
    Check, DesiredState, LoadEndpoint, LoadQuery, LoadUrl, Monitor, Name, Network, ProbeAddress, Target,
};

/// Networks that change which addresses are allowed (`health.networks`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProbeNetworks {
    /// Networks that are allowed although they are denied by default.
    pub allow: Vec<Network>,
    /// Networks that are denied; take precedence over `allow`.
    pub deny: Vec<Network>,
    /// Networks that get the headers and client certificates of monitors. Without access rules all networks get them.
    pub credentials: Vec<Network>,
}

/// The reason why this server does not connect to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotAllowed {
    /// This machine itself.
    #[error("loopback addresses are not allowed")]
    Loopback,
    /// Link-local addresses, among them the metadata services of most clouds.
    #[error("link-local addresses are not allowed")]
    LinkLocal,
    /// The metadata service of a cloud.
    #[error("the address of a cloud's metadata service is not allowed")]
    Metadata,
    /// Multicast and broadcast.
    #[error("multicast and broadcast addresses are not allowed")]
    Multicast,
    /// 0.0.0.0/8 and ::, which lead to this machine.
    #[error("unspecified addresses are not allowed")]
    Unspecified,
    /// In `health.networks.deny`.
    #[error("health.networks.deny has the address")]
    Denied,
    /// A listener of this server.
    #[error("listeners of this server are not allowed")]
    OwnListener,
    /// A tenant may have declared the address, and would get the secrets of the monitor.
    #[error(
        "its monitor sends headers or a client certificate, which only addresses of the configuration files and of \
         health.networks.credentials get"
    )]
    Credentials,
}

/// The rules of a fence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FenceRules {
    networks: ProbeNetworks,
    /// Addresses, endpoints and hosts of the configuration files.
    own: HashSet<ProbeAddress>,
    /// Host names of clusters of the configuration files. Their addresses are somebody else's choice, so the defaults hold for them.
    own_hosts: HashSet<Name>,
    /// Monitors of the configuration files.
    own_monitors: HashSet<Arc<Monitor>>,
    /// True if there are tenants.
    has_tenants: bool,
    /// Listeners of this server.
    listeners: Vec<SocketAddr>,
}

impl FenceRules {
    /// Returns the rules that exempt everything that configuration files declare. With access rules (`has_tenants`), other addresses may
    /// be those of tenants.
    pub fn new(networks: ProbeNetworks, files: &DesiredState, has_tenants: bool) -> Self {
        let mut own: HashSet<ProbeAddress> = HashSet::new();
        for cluster in files.clusters.values() {
            own.extend(cluster.addresses.iter().map(|address| ProbeAddress::Address(canonical(*address))));
        }
        own.extend(files.cluster_load_sources.values().flat_map(|declared| declared.gateways.iter().map(endpoint)));
        own.extend(
            files.load_sources.values().filter_map(|source| url_of(&source.query)).map(|url| endpoint(&url.address)),
        );
        own.extend(
            files
                .pools
                .values()
                .flat_map(|pool| &pool.members)
                .filter_map(|member| member.probe.as_ref())
                .map(endpoint),
        );
        let own_hosts =
            files.clusters.values().flat_map(|cluster| &cluster.hosts).map(|host| host.name.clone()).collect();
        let own_monitors = files.monitors.values().cloned().chain([Arc::default()]).collect();
        Self { networks, own, own_hosts, own_monitors, has_tenants, listeners: Vec::new() }
    }

    /// Checks a connection. `host` is the name that was resolved to the address, `monitor` that of the target, if a probe
    /// connects. `is_local` returns true if this machine has an address.
    pub fn check(
        &self,
        to: SocketAddr,
        host: Option<&str>,
        monitor: Option<&Monitor>,
        is_local: impl Fn(IpAddr) -> bool,
    ) -> Result<(), NotAllowed> {
        let address = canonical(to.ip());
        let socket = SocketAddr::new(address, to.port());
        let is_own_endpoint = self.own.contains(&ProbeAddress::Socket(socket))
            || host.is_some_and(|host| self.own.contains(&endpoint(&ProbeAddress::Host(host.to_owned(), to.port()))));
        if is_own_endpoint {
            return Ok(());
        }
        let is_own = self.own.contains(&ProbeAddress::Address(address));
        let is_own_probe = is_own && monitor.is_none_or(|monitor| self.own_monitors.contains(monitor));
        if !is_own_probe && self.is_listener(socket, is_local) {
            return Err(NotAllowed::OwnListener);
        }
        let secret = monitor.filter(|monitor| self.has_tenants && monitor.check.sends_secrets());
        // A member may name another port of an address of the files.
        let is_own_host = || host.and_then(|host| host.parse().ok()).is_some_and(|host| self.own_hosts.contains(&host));
        let is_own_port = |monitor: &Monitor| (is_own || is_own_host()) && monitor.check.port() == Some(to.port());
        if secret.is_some_and(|monitor| !is_own_port(monitor) && !contains(&self.networks.credentials, address)) {
            return Err(NotAllowed::Credentials);
        }
        if is_own {
            return Ok(());
        }
        if contains(&self.networks.deny, address) {
            return Err(NotAllowed::Denied);
        }
        match denied_by_default(address) {
            Some(denied) if !contains(&self.networks.allow, address) => Err(denied),
            _ => Ok(()),
        }
    }

    /// Checks the target of a probe as far as that is possible without resolving a name.
    pub fn check_target(&self, target: &Target) -> Result<(), NotAllowed> {
        let port = match (&target.monitor.check, target.monitor.check.port()) {
            (Check::Always | Check::Never, _) | (_, None) => return Ok(()),
            (_, Some(port)) => port,
        };
        let (socket, host) = match &target.address {
            ProbeAddress::Address(address) => (SocketAddr::new(*address, port), None),
            ProbeAddress::OfHost(address, host) => (SocketAddr::new(*address, port), Some(host.to_plain())),
            ProbeAddress::Socket(socket) => (*socket, None),
            ProbeAddress::Host(..) => return Ok(()),
        };
        self.check(socket, host.as_deref(), Some(&target.monitor), |_| false)
    }

    /// True if a listener of this server accepts connections at `socket`.
    fn is_listener(&self, socket: SocketAddr, is_local: impl Fn(IpAddr) -> bool) -> bool {
        let (address, port) = (socket.ip(), socket.port());
        self.listeners.iter().filter(|listener| listener.port() == port).any(|listener| {
            let bound = canonical(listener.ip());
            // Connections to the unspecified address lead to loopback.
            let is_here = || address.is_loopback() || address.is_unspecified() || is_local(address);
            bound == address || (bound.is_unspecified() || address.is_unspecified()) && is_here()
        })
    }
}

/// Returns an endpoint in the form in which endpoints are compared.
fn endpoint(address: &ProbeAddress) -> ProbeAddress {
    match address {
        ProbeAddress::Address(address) | ProbeAddress::OfHost(address, _) => ProbeAddress::Address(canonical(*address)),
        ProbeAddress::Socket(socket) => ProbeAddress::Socket(SocketAddr::new(canonical(socket.ip()), socket.port())),
        ProbeAddress::Host(host, port) => ProbeAddress::Host(host.trim_end_matches('.').to_ascii_lowercase(), *port),
    }
}

const fn url_of(query: &LoadQuery) -> Option<&LoadUrl> {
    match query {
        LoadQuery::Promql { url, .. } => Some(url),
        LoadQuery::Prometheus { endpoint, .. } | LoadQuery::Json { endpoint, .. } => match endpoint {
            LoadEndpoint::Url(url) => Some(url),
            LoadEndpoint::Gateways { .. } => None,
        },
    }
}

fn contains(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

/// Returns the IPv4 address that an IPv6 address stands for: mapped (RFC 4291 section 2.5.5.2), compatible (2.5.5.1), or
/// translated with the well-known prefix (RFC 6052 section 2.1). Other addresses stay as they are.
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    let [.., high, low] = six.segments();
    let embedded = Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match six.segments() {
        // :: and ::1 are no IPv4 addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded.into(),
        _ => address,
    }
}

/// Returns the reason why an address in canonical form is denied without any configuration.
fn denied_by_default(address: IpAddr) -> Option<NotAllowed> {
    /// Amazon's metadata service over IPv6; that over IPv4 is link-local.
    const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    /// Alibaba's metadata service.
    const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    let denied = [
        (address.is_loopback(), NotAllowed::Loopback),
        (address.is_unspecified(), NotAllowed::Unspecified),
        (address.is_multicast(), NotAllowed::Multicast),
        match address {
            IpAddr::V4(four) if four.octets()[0] == 0 => (true, NotAllowed::Unspecified),
            IpAddr::V4(four) if four.is_link_local() => (true, NotAllowed::LinkLocal),
            IpAddr::V4(four) if four.is_broadcast() => (true, NotAllowed::Multicast),
            IpAddr::V6(six) if six.is_unicast_link_local() => (true, NotAllowed::LinkLocal),
            other => (other == METADATA_V4 || other == METADATA_V6, NotAllowed::Metadata),
        },
    ];
    denied.into_iter().find(|(is_denied, _)| *is_denied).map(|(_, denied)| denied)
}

/// The fence that probes and load readers share. Its rules follow the configuration.
#[derive(Debug, Default)]
pub struct Fence {
    /// `None`: everything is allowed.
    rules: RwLock<Option<Arc<FenceRules>>>,
    listeners: RwLock<Vec<SocketAddr>>,
}

impl Fence {
    /// Returns a fence with these rules.
    pub fn new(rules: FenceRules) -> Self {
        let fence = Self::default();
        fence.set_rules(rules);
        fence
    }

    /// Replaces the rules. The listeners are kept.
    pub fn set_rules(&self, rules: FenceRules) {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(FenceRules { listeners, ..rules }));
    }

    /// Sets the listeners of this server, once they are bound.
    pub fn set_listeners(&self, listeners: Vec<SocketAddr>) {
        listeners.clone_into(&mut self.listeners.write().unwrap_or_else(PoisonError::into_inner));
        let mut rules = self.rules.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = &mut *rules {
            Arc::make_mut(rules).listeners = listeners;
        }
    }

    /// Returns the rules in force.
    pub fn rules(&self) -> Arc<FenceRules> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.as_ref().map(Arc::clone).unwrap_or_default()
    }

    /// Checks a connection.
    pub(crate) fn check(
        &self,
        to: SocketAddr,
        host: Option<&str>,
        monitor: Option<&Monitor>,
    ) -> Result<(), NotAllowed> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Arc::clone);
        rules.map_or(Ok(()), |rules| rules.check(to, host, monitor, is_local))
    }
}

/// True if this machine has the address: then the kernel chooses it as the source for packets to it. Nothing is sent.
fn is_local(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let source = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests;

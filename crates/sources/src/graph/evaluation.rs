//! The evaluation of one object: the names that it exposes, its problems, and the objects that it depends on.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fairway_model::RuleBackends;
use fairway_providers::Endpoint;

use super::{Declared, Exposure, Graph, backends::Reached, names::Group};
use crate::objects::{
    Body, DnsAnnotations, HostPattern, Ingress, Kind, Object, ObjectKey, Service, TargetText, Targets,
};

/// The result of an evaluation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Evaluated {
    /// The names.
    pub(super) groups: Box<[Group]>,
    /// Keys of the objects that were looked up, also of missing ones, sorted.
    pub(super) lookups: Box<[ObjectKey]>,
    /// Problems, for people.
    pub(super) problems: Box<[Arc<str>]>,
    /// Backends of each rule of a route, by the name of its upstream cluster.
    pub(super) rules: Box<[(Arc<str>, Arc<RuleBackends>)]>,
}

impl Evaluated {
    /// Returns true if there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the Services that were looked up, in order.
    pub(super) fn services(&self) -> impl Iterator<Item = &ObjectKey> {
        self.lookups.iter().filter(|key| key.kind == Kind::Service)
    }
}

/// The evaluation of one object.
pub(super) struct Evaluation<'g> {
    pub(super) graph: &'g Graph,
    pub(super) key: &'g ObjectKey,
    pub(super) object: &'g Object,
    groups: Vec<Group>,
    lookups: BTreeSet<ObjectKey>,
    problems: Vec<Arc<str>>,
    pub(super) rules: Box<[(Arc<str>, Arc<RuleBackends>)]>,
    /// Number of problems over the limit.
    omitted: usize,
}

/// The gateway of names.
pub(super) struct Through<'a> {
    /// Key of the Service or Gateway whose addresses these are; `None` if it is unknown.
    pub(super) key: Option<&'a ObjectKey>,
    /// Its addresses.
    pub(super) targets: &'a Arc<Targets>,
    /// Annotations of the Gateway.
    pub(super) dns: Option<&'a Arc<DnsAnnotations>>,
}

impl<'g> Evaluation<'g> {
    /// Evaluates an object.
    pub(super) fn run(graph: &'g Graph, key: &'g ObjectKey, object: &'g Object) -> Evaluated {
        let (groups, lookups, problems, rules) = Default::default();
        let mut evaluation = Self { graph, key, object, groups, lookups, problems, rules, omitted: 0 };
        if !object.dns.as_ref().is_some_and(|dns| dns.is_foreign) {
            evaluation.evaluate();
        }
        let Self { groups, lookups, mut problems, rules, omitted, .. } = evaluation;
        if omitted > 0 {
            problems.push(format!("{omitted} further problems").into());
        }
        Evaluated { groups: groups.into(), lookups: lookups.into_iter().collect(), problems: problems.into(), rules }
    }

    fn evaluate(&mut self) {
        match &self.object.body {
            Body::Service(service) => self.service(service),
            Body::Ingress(ingress) => self.ingress(ingress),
            Body::IstioGateway(gateway) => self.istio_gateway(gateway),
            Body::VirtualService(service) => self.virtual_service(service),
            Body::Gateway(gateway) => self.gateway(gateway),
            Body::ListenerSet(set) => self.listener_set(set),
            Body::Route(route) => self.route(route),
            Body::DnsEndpoint(endpoints) => self.dns_endpoint(endpoints),
            Body::EndpointSlice(_) | Body::ReferenceGrant(_) | Body::TrafficSplit(_) => {}
        }
    }

    fn service(&mut self, service: &'g Service) {
        let Some(external) = &service.external else { return };
        self.report_omitted(external.omitted);
        if !external.is_load_balancer || self.object.dns.is_none() {
            return;
        }
        let names = self.annotated_names();
        if names.is_empty() {
            return;
        }
        let reached = Reached { ready: Some(self.graph.ready(self.key)), split: None };
        self.expose(names, Through { key: Some(self.key), targets: &external.targets, dns: None }, &reached);
    }

    /// The hosts of an Ingress have backends of their own, so they are grouped by what these have.
    fn ingress(&mut self, ingress: &'g Ingress) {
        self.report_omitted(ingress.omitted);
        let mut groups = BTreeMap::<Reached, BTreeSet<Arc<str>>>::new();
        let mut annotated = self.annotated_names();
        for (host, backends) in &ingress.hosts {
            if let HostPattern::Name(name) = host {
                annotated.remove(name);
                groups.entry(self.reach(backends)).or_default().insert(Arc::clone(name));
            } else {
                self.report_host(host);
            }
        }
        if !annotated.is_empty() {
            groups.entry(self.reach(&ingress.all)).or_default().append(&mut annotated);
        }
        for (reached, names) in groups {
            self.expose(names, Through { key: None, targets: &ingress.targets, dns: None }, &reached);
        }
    }

    fn dns_endpoint(&mut self, endpoints: &'g [Arc<Endpoint>]) {
        for endpoint in endpoints {
            match HostPattern::new(&endpoint.dns_name) {
                HostPattern::Name(name) => {
                    let declared = Declared::Endpoint(Endpoint::clone(endpoint));
                    self.push(BTreeSet::from([name]), declared, &Reached::default(), self.object.dns.clone());
                }
                host => self.report_host(&host),
            }
        }
    }

    /// Exposes names through a gateway. Without an address the names are not exposed, which is a problem.
    pub(super) fn expose(&mut self, names: BTreeSet<Arc<str>>, through: Through<'_>, reached: &Reached) {
        if names.is_empty() {
            return;
        }
        let targets = self.replaced_targets(through.dns).unwrap_or_else(|| Arc::clone(through.targets));
        if targets.is_empty() {
            let gateway = through.key.filter(|key| *key != self.key);
            let gateway = gateway.map_or_else(|| "it".to_owned(), ToString::to_string);
            self.report(|| format!("its names are not exposed: {gateway} has no address yet"));
            return;
        }
        let declared = Declared::Gateway { gateway: through.key.cloned(), targets };
        let dns = DnsAnnotations::merged(self.object.dns.as_ref(), through.dns);
        self.push(names, declared, reached, dns);
    }

    fn push(
        &mut self,
        names: BTreeSet<Arc<str>>,
        declared: Declared,
        reached: &Reached,
        dns: Option<Arc<DnsAnnotations>>,
    ) {
        let exposure = Exposure {
            namespace: Arc::clone(&self.key.namespace),
            object: self.key.clone(),
            created: self.object.created,
            declared,
            ready: reached.ready,
            split: reached.split.clone(),
            dns,
        };
        self.groups.push(Group { exposure: Arc::new(exposure), names: names.into_iter().collect() });
    }

    /// Returns the targets of the annotation of the object, else of its gateway. Returns `None` without one.
    pub(super) fn replaced_targets(&mut self, gateway: Option<&Arc<DnsAnnotations>>) -> Option<Arc<Targets>> {
        let dns = [self.object.dns.as_ref(), gateway].into_iter().flatten().find(|dns| !dns.target.is_empty())?;
        let dns = Arc::clone(dns);
        for text in dns.target.iter().filter(|text| TargetText::read(text) == TargetText::Invalid) {
            self.report(|| {
                format!("annotation target: {text:.60?} is neither an address nor a host name; it is skipped")
            });
        }
        let (targets, omitted) = Targets::read(dns.target.iter().map(|text| &**text));
        self.report_omitted(omitted);
        Some(Arc::new(targets))
    }

    /// Returns the names of the annotation `hostname`.
    pub(super) fn annotated_names(&mut self) -> BTreeSet<Arc<str>> {
        let Some(dns) = &self.object.dns else { return BTreeSet::new() };
        self.names(&dns.hostnames)
    }

    /// Returns the hosts that are names; others are problems.
    fn names(&mut self, hosts: &'g [HostPattern]) -> BTreeSet<Arc<str>> {
        let mut names = BTreeSet::new();
        for host in hosts {
            match host {
                HostPattern::Name(name) => _ = names.insert(Arc::clone(name)),
                host => self.report_host(host),
            }
        }
        names
    }

    /// Returns an object, and records the dependency on it.
    pub(super) fn look_up(&mut self, key: &ObjectKey) -> Option<&'g Object> {
        self.lookups.insert(key.clone());
        self.graph.objects.get(key)
    }

    /// Returns true if an object was looked up.
    pub(super) fn has_looked_up(&self, key: &ObjectKey) -> bool {
        self.lookups.contains(key)
    }

    /// Records a dependency.
    pub(super) fn depend_on(&mut self, key: ObjectKey) {
        self.lookups.insert(key);
    }

    /// Adds a problem, up to a limit.
    pub(super) fn report(&mut self, message: impl FnOnce() -> String) {
        if self.problems.len() >= PROBLEMS_MAX {
            self.omitted += 1;
            return;
        }
        let message = message().into();
        if !self.problems.contains(&message) {
            self.problems.push(message);
        }
    }

    /// Reports a host that is no name.
    pub(super) fn report_host(&mut self, host: &HostPattern) {
        match host {
            HostPattern::Name(_) => {}
            HostPattern::Any => self.report(|| {
                "host \"*\" stands for all names and is no name in DNS; give the names in the annotation \
                 external-dns.alpha.kubernetes.io/hostname"
                    .to_owned()
            }),
            HostPattern::Invalid(text) => self.report(|| {
                format!(
                    "host {text:.80?} is no name in DNS; use letters, digits and hyphens, at least two labels, and the \
                     form xn-- of international names"
                )
            }),
        }
    }

    /// Reports hosts that are invalid.
    pub(super) fn report_invalid<'a>(&mut self, hosts: impl IntoIterator<Item = &'a HostPattern>) {
        for host in hosts.into_iter().filter(|host| matches!(host, HostPattern::Invalid(_))) {
            self.report_host(host);
        }
    }

    /// Reports addresses over the limit.
    pub(super) fn report_omitted(&mut self, omitted: usize) {
        if omitted > 0 {
            let max = Targets::MAX;
            self.report(|| format!("{omitted} of its addresses are not used: the limit is {max}"));
        }
    }
}

/// Maximum number of problems of an object that are kept: an object may have thousands of invalid hosts.
const PROBLEMS_MAX: usize = 8;

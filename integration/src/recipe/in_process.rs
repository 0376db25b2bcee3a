//! Plays recipes on the code in this process: compiles, then calls `respond`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use fairway_config::Source;
use fairway_model::{DesiredState, Health, HealthStatus, OverrideAction, ProbeAddress, Secret, Target, ZoneSpec};
use fairway_zonefile::{ZoneData, check_zone, read_zone};
use fairway_zones::{
    Client, CookieKey, CookieKeys, Draw, Now, Request, RuntimeState, ServerIdentity, ServerOptions, ServingState,
    Tally, TargetIndex, Transport, compile, respond,
};

use super::{Recipe, Stage, State};

/// First port of the probe addresses of clusters; nothing is ever sent there.
const PROBE_PORT: u16 = 20_001;

/// The compiled recipe and the health of its clusters.
pub struct InProcess {
    serving: ServingState,
    clusters: Vec<String>,
    tally: Tally,
}

impl InProcess {
    /// Compiles the recipe; every cluster is up.
    pub fn new(recipe: &Recipe) -> Result<Self, String> {
        let (desired, zones) = if recipe.config.is_empty() { read_zones(recipe)? } else { read_config(recipe)? };
        let (version, id) = recipe.identity.clone();
        let key = CookieKey::from_hex(&Secret::new("000102030405060708090a0b0c0d0e0f"));
        let cookies = CookieKeys::Listed(key.into_iter().collect());
        let options = ServerOptions { identity: ServerIdentity { version, id }, cookies, ..ServerOptions::default() };
        let faults = |faults: Vec<fairway_model::Diagnostic>| format!("the recipe does not compile: {faults:#?}");
        let snapshot = Arc::new(compile(&desired, &zones, &options, None).map_err(faults)?.0);
        let runtime = Arc::new(RuntimeState::new(&snapshot, |_| health(State::Up)));
        let serving = ServingState { snapshot, runtime };
        Ok(Self { serving, clusters: recipe.probed_clusters(), tally: Tally::default() })
    }

    /// Returns the targets of a cluster: those probed at its port.
    fn targets(&self, cluster: usize) -> Vec<TargetIndex> {
        let port = |target: &Target| match &target.address {
            ProbeAddress::Socket(socket) => Some(usize::from(socket.port())),
            _ => None,
        };
        let ports = self.serving.snapshot.targets().iter().map(port);
        let mine = (0..).zip(ports).filter(|(_, port)| *port == Some(usize::from(PROBE_PORT) + cluster));
        mine.map(|(index, _)| TargetIndex(index)).collect()
    }
}

const fn health(state: State) -> Health {
    match state {
        State::Up => Health::new(HealthStatus::Up, None),
        State::Down => Health::new(HealthStatus::Down, None),
        State::Pending => Health::PENDING,
        State::Unknown => Health::new(HealthStatus::Unknown, None),
        State::ForcedUp => Health::new(HealthStatus::Down, Some(OverrideAction::Up)),
        State::ForcedDown => Health::new(HealthStatus::Up, Some(OverrideAction::Down)),
        State::Drained => Health::new(HealthStatus::Up, Some(OverrideAction::Drain)),
    }
}

/// Static zones only: reads no configuration, so that these recipes need only the crate zones.
fn read_zones(recipe: &Recipe) -> Result<(DesiredState, Vec<ZoneData>), String> {
    let mut desired = DesiredState::default();
    let mut zones = Vec::new();
    for (name, text) in &recipe.zones {
        let mut include = |path: &str| Err(format!("{path}: a recipe includes nothing"));
        let (mut data, mut faults) = read_zone(name, &format!("{name}zone"), text.as_bytes(), &mut include);
        faults.extend(check_zone(&mut data, &|_| None));
        if faults.iter().any(fairway_model::Diagnostic::is_error) {
            return Err(format!("the zone {name} is refused: {faults:#?}"));
        }
        desired.zones.insert(name.clone(), ZoneSpec::new(name.clone()));
        zones.push(data);
    }
    Ok((desired, zones))
}

fn read_config(recipe: &Recipe) -> Result<(DesiredState, Vec<ZoneData>), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let clusters = recipe.probed_clusters();
    let probe = |name: &str| {
        let index = clusters.iter().position(|c| c == name).expect("the name comes from the same list");
        let port = PROBE_PORT + u16::try_from(index).expect("a recipe has few clusters");
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string()
    };
    let text = format!("version: 1\n{}", recipe.config_with(probe));
    let files = [recipe.zone_files(), vec![("fairway.yaml".to_owned(), text)]].concat();
    for (name, text) in files {
        std::fs::write(folder.path().join(&name), text).map_err(|e| format!("{name}: {e}"))?;
    }
    let loaded = fairway_config::load(&Source::Path(folder.path().join("fairway.yaml")), &|_| None);
    let loaded = loaded.map_err(|faults| format!("the configuration is refused: {faults:#?}"))?;
    Ok((loaded.desired, loaded.zones))
}

impl Stage for InProcess {
    fn exchange(
        &mut self,
        octets: &[u8],
        transport: Transport,
        from: Option<SocketAddr>,
        _: bool,
    ) -> Result<Option<Vec<u8>>, String> {
        let from = from.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, 5353)));
        let mut out = vec![0xee; if transport == Transport::Udp { 1232 } else { 65_535 }];
        let client = Client::new(from.ip(), from.port(), transport);
        let request = Request { client: &client, packet: octets, now: Now(1_700_000_000), draw: Draw(7) };
        let length = respond(&self.serving, &request, &self.tally, &mut out).length();
        Ok(length.map(|length| out[..length].to_vec()))
    }

    fn set_health(&mut self, cluster: &str, state: State) -> Result<bool, String> {
        let cluster_index = self.clusters.iter().position(|c| c == cluster);
        let index = cluster_index.ok_or_else(|| format!("no member is probed at \"{{{cluster}}}\""))?;
        let changes: Vec<_> = self.targets(index).into_iter().map(|target| (target, health(state))).collect();
        let ServingState { snapshot, runtime } = &self.serving;
        self.serving.runtime = Arc::new(runtime.with(snapshot, &changes));
        Ok(true)
    }

    fn can_ask_from(&self, _: SocketAddr, _: Transport) -> bool {
        true
    }

    fn pause(&mut self) -> bool {
        false
    }
}

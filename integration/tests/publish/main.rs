//! Publishing to real servers: one contract that every provider passes, and the daemon with one of them.
//!
//! Real servers need the feature `real`; the zone file needs none.

#[cfg(feature = "real")]
mod daemon;
#[cfg(feature = "real")]
mod declared;
#[cfg(feature = "real")]
mod delay;
#[cfg(feature = "real")]
mod etcd;
#[cfg(feature = "real")]
mod flags;
#[cfg(feature = "real")]
mod handover;
#[cfg(feature = "real")]
mod kubernetes;
mod scripted;
#[cfg(feature = "real")]
mod secured;
#[cfg(feature = "real")]
mod servers;
mod webhook;

use std::{
    collections::BTreeSet,
    fs,
    sync::{Arc, Mutex},
    time::Duration,
};

use fairway_model::{Changes, Name, ProviderRecordSet, RecordSet, Rtype, Ttl, Update};
use fairway_providers::{
    file::ZoneFile,
    publish::{
        Affix, Bounds, Limits, Notes, Obstacle, Ownership, Pacing, Policy, Provider, ProviderError, Publisher, Rules,
        Setup, Wanted,
    },
};
use fairway_zonefile::rdata_from_text;
use tempfile::TempDir;
use tokio::sync::watch;

/// The zone of all providers.
const ZONE: &str = "pub.example.";

/// Foreign records at the start, as the text of a zone file.
const FOREIGN: &str = "\
$ORIGIN pub.example.
$TTL 300
@ SOA ns.pub.example. admin.pub.example. (
  1 ; serial
  3600 600 86400 60 )
@ NS ns
@ MX 10 mail
@ TXT \"v=spf1 -all\"
ns A 192.0.2.53
mail A 192.0.2.25
www A 192.0.2.80
alias CNAME www
*.wild TXT \"with \\\"quotes\\\" and more\"
theirs A 192.0.2.99
a-theirs TXT \"heritage=external-dns,external-dns/owner=another,external-dns/resource=service/x/y\"
_sip._tcp SRV 1 2 5060 www
";

/// Returns the number of syncs; integration/run makes fewer than `FAIRWAY_SYNCS=100`.
fn syncs() -> usize {
    std::env::var("FAIRWAY_SYNCS").ok().and_then(|count| count.parse().ok()).unwrap_or(20)
}

fn set(name: &str, rtype: Rtype, texts: &[&str]) -> ProviderRecordSet {
    let rdata =
        |text: &&str| rdata_from_text(rtype, text.as_bytes(), &Name::root()).expect("the tests write RDATA well");
    let name: Name = format!("{name}.{ZONE}").parse().expect("the tests write names well");
    ProviderRecordSet::plain(RecordSet::new(name, rtype, Ttl::STEERED, texts.iter().map(rdata)))
}

/// Returns the wanted record sets of one round: names appear, change and disappear.
fn wanted_sets(round: usize) -> Wanted {
    let address = |of: usize| format!("203.0.113.{}", (round + of) % 250 + 1);
    let mut sets: Vec<_> = (0..8)
        .filter(|of| !(round + of).is_multiple_of(4))
        .map(|of| set(&format!("n{of}"), Rtype::A, &[&address(of), &address(of + 1)]))
        .collect();
    sets.push(set("six", Rtype::AAAA, &["2001:db8::1"]));
    sets.push(set("lead", Rtype::CNAME, &["www.elsewhere.example."]));
    sets.push(set("sub", Rtype::NS, &["ns1.sub.pub.example.", "ns.elsewhere.example."]));
    sets.push(set("ca", Rtype::CAA, &["0 issue \"ca.example.net\""]));
    sets.push(set("ns1.sub", Rtype::A, &["203.0.113.53"]));
    sets.push(set("text", Rtype::TXT, &[&format!("\"round {round}; a \\\"quote\\\"\" \"{}\"", "t".repeat(255))]));
    // These are foreign.
    sets.push(set("www", Rtype::A, &["203.0.113.66"]));
    sets.push(set("theirs", Rtype::A, &["203.0.113.66"]));
    Wanted { sets, held: BTreeSet::new() }
}

/// Sender of the wanted record sets; without it the publisher ends.
type WantedSender = watch::Sender<Option<Arc<Wanted>>>;

/// Starts a publisher of [`ZONE`] that applies changes at once and owns its records by TXT records.
fn publisher(provider: impl Provider + 'static) -> (Publisher, WantedSender) {
    let (sender, wanted_receiver) = watch::channel(None);
    let rules = Rules {
        zones: vec![ZONE.parse().expect("a name")],
        policy: Policy::Sync,
        ownership: Ownership::Txt { affix: Affix::default(), owner: "us".to_owned(), key: None },
        bounds: Bounds::default(),
    };
    let pacing = Pacing { call_gap: Duration::ZERO, ..Pacing::default() };
    let setup = Setup { name: "p".to_owned(), rules, pacing, auto: false };
    let (publisher, task) = Publisher::new(setup, Box::new(provider), wanted_receiver, Notes::default());
    tokio::spawn(task);
    (publisher, sender)
}

/// The contract of each provider: writes the wanted records, reads them back unchanged, touches nothing else, and ends as it began.
async fn contract<P: Provider + Clone + 'static>(provider: P) {
    let before = sorted(provider.read().await.expect("it can be read at first"));
    let types = provider.limits().types;
    // Records that a provider reports as unsupported are not requested.
    let wanted_of = |round| {
        let mut wanted = wanted_sets(round);
        wanted.sets.retain(|set| types.is_none_or(|types| types.contains(&set.set.rtype)));
        wanted
    };
    let (publisher, sender) = publisher(provider.clone());
    for round in 0..syncs() {
        sender.send_replace(Some(Arc::new(wanted_of(round))));
        let outcome = publisher.apply(1_000).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        let applied = &outcome.applied;
        assert_eq!((&applied.broken, applied.refused.len()), (&None, 0), "round {round}: {:?}", applied.refused);
        let mut obstacles: Vec<_> =
            outcome.draft.refused.iter().map(|(key, why)| (key.name.to_string(), why.clone())).collect();
        obstacles.sort_by(|(one, _), (other, _)| one.cmp(other));
        let foreign = if before.is_empty() { vec![] } else { obstacles_of_foreign() };
        assert_eq!(obstacles, foreign, "round {round}");
        let now = sorted(provider.read().await.expect("it can be read"));
        for set in &before {
            assert!(now.contains(set), "round {round}: {set:?} was touched");
        }
        let again = publisher.draft(0).await.expect("it can be read");
        assert!(again.units.is_empty(), "round {round}: {:?} is still to do", again.units);
    }
    sender.send_replace(Some(Arc::new(Wanted::default())));
    publisher.apply(1_000).await.expect("everything of ours goes");
    assert_eq!(sorted(provider.read().await.expect("it can be read")), before);
    changes_of_others_are_not_overwritten(provider).await;
}

/// A provider whose records another client changes once, right after they are read.
#[derive(Clone)]
struct Interfered<P> {
    provider: P,
    change: Arc<Mutex<Option<Changes>>>,
}

#[async_trait::async_trait]
impl<P: Provider> Provider for Interfered<P> {
    fn limits(&self) -> Limits {
        self.provider.limits()
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let read = self.provider.read().await?;
        let change = self.change.lock().expect("nobody panics with it").take();
        if let Some(change) = change {
            self.provider.apply(&change).await?;
        }
        Ok(read)
    }

    async fn adjust(&self, wanted: Vec<ProviderRecordSet>) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        self.provider.adjust(wanted).await
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        self.provider.apply(changes).await
    }
}

/// Part of the contract: what others change between read and write stays, does not block other names, and is repaired by the next sync.
async fn changes_of_others_are_not_overwritten<P: Provider + Clone + 'static>(provider: P) {
    let interfered = Interfered { provider, change: Arc::default() };
    let (publisher, sender) = publisher(interfered.clone());
    let [mine, theirs, next] = ["1", "9", "2"].map(|last| set("race", Rtype::A, &[&format!("203.0.113.{last}")]));
    let gone = set("gone", Rtype::A, &["203.0.113.4"]);
    let want = |sets: &[&ProviderRecordSet]| {
        let sets = sets.iter().map(|set| (*set).clone()).collect();
        sender.send_replace(Some(Arc::new(Wanted { sets, held: BTreeSet::new() })));
    };
    want(&[&mine, &gone]);
    publisher.apply(1_000).await.expect("it can be published");
    let of = async |label: &str| {
        let read = sorted(interfered.provider.read().await.expect("it can be read"));
        let name: Name = format!("{label}.{ZONE}").parse().expect("a name");
        let mut found = read.into_iter().filter(|set| set.set.name == name && set.set.rtype == Rtype::A);
        found.next().map(|set| set.set.rdatas)
    };
    let other = set("other", Rtype::A, &["203.0.113.3"]);
    let changed = set("gone", Rtype::A, &["203.0.113.5"]);
    let update = |from: &ProviderRecordSet, to: &ProviderRecordSet| Update { from: from.clone(), to: to.clone() };
    let change = Changes { update: vec![update(&mine, &theirs), update(&gone, &changed)], ..Changes::default() };
    *interfered.change.lock().expect("nobody panics with it") = Some(change);
    want(&[&next, &other]);
    let outcome = publisher.apply(1_000).await.expect("the provider answers");
    let refused: Vec<_> = outcome.applied.refused.keys().map(ToString::to_string).collect();
    assert_eq!(refused, [format!("gone.{ZONE}"), format!("race.{ZONE}")], "{:?}", outcome.applied);
    assert_eq!(of("race").await, Some(theirs.set.rdatas), "the update overwrote a change of another client");
    assert_eq!(of("gone").await, Some(changed.set.rdatas), "the deletion took a change of another client");
    assert_eq!(of("other").await, Some(other.set.rdatas.clone()));
    let outcome = publisher.apply(1_000).await.expect("the provider answers");
    assert!(outcome.applied.refused.is_empty(), "{:?}", outcome.applied);
    assert_eq!((of("race").await, of("gone").await), (Some(next.set.rdatas), None), "the next sync plans anew");
    want(&[]);
    publisher.apply(1_000).await.expect("everything of ours goes");
}

fn obstacles_of_foreign() -> Vec<(String, Obstacle)> {
    let name = |label: &str| format!("{label}.{ZONE}");
    vec![(name("theirs"), Obstacle::OfOther("another".to_owned())), (name("www"), Obstacle::Unclaimed)]
}

/// Without the serial, which the server sets.
fn sorted(read: Vec<ProviderRecordSet>) -> Vec<ProviderRecordSet> {
    let mut sets: Vec<_> = read.into_iter().filter(|set| set.set.rtype != Rtype::SOA).collect();
    sets.sort_by_key(ProviderRecordSet::key);
    sets
}

#[tokio::test]
async fn file_provider_keeps_the_contract() {
    let folder = TempDir::new().expect("a temporary folder");
    let path = folder.path().join("pub.zone");
    fs::write(&path, FOREIGN).expect("the folder can be written");
    contract(ZoneFile { path: path.clone() }).await;
    let text = fs::read_to_string(&path).expect("it is there");
    let rest = FOREIGN.split_once("; serial").expect("it has one").1;
    assert!(text.contains(rest), "{text}");
}

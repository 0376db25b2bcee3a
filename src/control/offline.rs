//! The view that files alone would give, for `fairway explain --config` and `fairway replay`: nothing is probed, nothing is bound.

use std::{collections::HashMap, time::SystemTime};

use fairway_model::{ClusterName, Desired, Fault, Verdict};
use fairway_zones::{TargetIndex, View};

use super::{Environment, configured::Reader, reload::view_of};
use crate::config::Source;

/// A configuration as it would answer, and what it wishes for.
#[derive(Debug)]
pub struct Offline {
    /// What would be served.
    pub view: View,
    /// What is wished for.
    pub desired: Desired,
}

/// Reads and compiles a configuration, and judges each target by one of the clusters it speaks for.
///
/// Overrides of the configuration hold, and members are open or closed, as they would in a daemon that starts now.
pub fn of_files(
    source: &Source,
    environment: &Environment,
    judge: impl Fn(&ClusterName) -> Verdict,
) -> Result<Offline, Vec<Fault>> {
    let reader = Reader { source: source.clone(), environment: environment.clone(), others: vec![] };
    let now = SystemTime::now().into();
    let (configured, snapshot) = reader.read_here(None, now).outcome?;
    let numbered = (0..).map(TargetIndex).zip(snapshot.targets());
    let verdicts: HashMap<_, _> = numbered
        .map(|(number, target)| {
            let verdict = configured.uses.clusters(number).first().map_or(Verdict::Pending, &judge);
            (target.clone(), verdict)
        })
        .collect();
    let book = super::book::Book::new(configured.overrides.clone(), vec![]);
    let forced = book.forced(&configured.uses);
    Ok(Offline { view: view_of(snapshot, None, now, &verdicts, &forced), desired: configured.desired })
}

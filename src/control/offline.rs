//! The view that files alone would give, for `fairway explain --config`: nothing is probed, nothing is bound.

use std::{collections::HashMap, time::SystemTime};

use fairway_model::{ClusterName, Fault, Verdict};
use fairway_zones::{TargetIndex, View};

use super::{Environment, configured::Reader, reload::view_of};
use crate::config::Source;

/// Reads and compiles a configuration, and judges each target by one of the clusters it speaks for.
///
/// Overrides of the configuration hold as they would in a daemon that starts now.
pub fn view_of_files(
    source: &Source,
    environment: &Environment,
    judge: impl Fn(&ClusterName) -> Verdict,
) -> Result<View, Vec<Fault>> {
    let reader = Reader { source: source.clone(), environment: environment.clone(), others: vec![] };
    let (configured, snapshot) = reader.read_here(None, SystemTime::now().into()).outcome?;
    let numbered = (0..).map(TargetIndex).zip(snapshot.targets());
    let verdicts: HashMap<_, _> = numbered
        .map(|(number, target)| {
            let verdict = configured.uses.clusters(number).first().map_or(Verdict::Pending, &judge);
            (target.clone(), verdict)
        })
        .collect();
    let book = super::book::Book::new(configured.overrides.clone(), vec![]);
    let forced = book.forced(&configured.uses);
    Ok(view_of(snapshot, None, &verdicts, &forced))
}

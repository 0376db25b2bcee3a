//! Merges, checks and compiles. Objects that do not fit are rejected, each with its reasons, until the rest compiles.
//!
//! ```text
//! last state ─┐
//!             ├─ affected ─► merge ─► check ─► compile ──► new state
//! sources ────┘   ▲                  └────────┴─ errors: reject the objects they are about
//!                 └───────────────────────────────┘
//! ```
//! What is rejected is a function of the sources alone, not of the last state: every object that the last state rejected is tried
//! again.

use std::{collections::BTreeSet, sync::Arc};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, PoolName, Severity, Timestamp};
use fairway_zones::{ServerOptions, Snapshot, Touched, compile, recompile, revise};

use super::{
    affected::{Affected, names_of},
    configured::{Configured, Files},
    contributed::LeftNames,
    declared::{Declared, LeftOut},
    merge::{MergedState, Sources},
    uses::Uses,
};
use fairway_config::Settings;
use fairway_store::objects::Key;

/// A compiled configuration.
#[derive(Debug)]
pub struct Compiled {
    /// The configuration with what it declares.
    pub configured: Configured,
    /// What it compiles to.
    pub snapshot: Snapshot,
    /// What was merged and checked; `None` if that was everything.
    pub touched: Option<Touched>,
    /// True if only that was compiled, which leaves little memory behind.
    pub is_incremental: bool,
}

/// Why nothing was compiled.
#[derive(Debug)]
pub enum Stop {
    /// The files do not fit.
    Errors(Vec<Diagnostic>),
    /// It would take long.
    NotBrief,
}

/// One run.
pub struct Job<'a> {
    pub(crate) sources: Sources<'a>,
    pub(crate) files: &'a Arc<Files>,
    pub(crate) objects: &'a Arc<Declared>,
    pub(crate) now: Timestamp,
    /// Stop where anything is rejected, or everything has to be merged.
    pub is_brief: bool,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Compiled, Stop> {
        let (overrides, of_overrides) = fairway_config::overrides(&self.files.overrides, self.now);
        let (errors, of_overrides): (Vec<_>, Vec<_>) = of_overrides.into_iter().partition(Diagnostic::is_error);
        let warnings = [&self.files.warnings[..], &of_overrides].concat();
        if errors.is_empty()
            && let Some(tried) = self.take_tried()
        {
            let Compiled { configured, .. } = tried;
            let warnings = [&warnings[..], &configured.compile_warnings].concat();
            let objects = Arc::clone(self.objects);
            return Ok(Compiled { configured: Configured { objects, overrides, warnings, ..configured }, ..tried });
        }
        let Fitted { merged, rejected, left_names, uses, compiled } = match self.fit() {
            Ok(fitted) if errors.is_empty() => fitted,
            Ok(_) => return Err(Stop::Errors(errors)),
            Err(Stop::Errors(more)) => return Err(Stop::Errors([errors, more].concat())),
            Err(stop) => return Err(stop),
        };
        let Snapshots { snapshot, warnings: compile_warnings, touched, is_incremental } = compiled;
        let mut left_out = merged.unanswered.clone();
        left_out.extend(rejected.clone());
        let configured = Configured {
            settings: self.files.settings.clone(),
            files: self.files_kept(),
            objects: Arc::clone(self.objects),
            merged,
            rejected,
            left_names,
            left_out,
            overrides,
            uses,
            warnings: [warnings, compile_warnings.clone()].concat(),
            compile_warnings,
        };
        Ok(Compiled { configured, snapshot, touched, is_incremental })
    }

    /// The result of a dry run of the same objects from the same state.
    fn take_tried(&self) -> Option<Compiled> {
        let previous = self.sources.previous?;
        if !Arc::ptr_eq(self.files, &previous.configured.files) {
            return None;
        }
        previous.tried.as_ref()?.take(previous, self.objects)
    }

    /// The files without the text of zones, which is large and compiled.
    fn files_kept(&self) -> Arc<Files> {
        match &self.files.zones {
            None => Arc::clone(self.files),
            Some(_) => Arc::new(self.files.without_text()),
        }
    }

    /// Merges, checks and compiles, without objects that do not fit. Fails where the files alone would.
    fn fit(&self) -> Result<Fitted, Stop> {
        let Self { sources, files, objects, .. } = self;
        let mut affected = Affected::between(sources.previous, files, objects);
        let (mut rejected, mut left_names) = (LeftOut::new(), LeftNames::new());
        loop {
            if self.is_brief && affected.part().is_none() {
                return Err(Stop::NotBrief);
            }
            let mut grown = affected.clone();
            let Some(merged) = sources.merge(&mut grown, &mut rejected, &left_names) else {
                (affected, rejected, left_names) = (Affected::All, LeftOut::new(), LeftNames::new());
                continue;
            };
            let faults = match self.check(&grown, &merged).and_then(|()| self.compile(&grown, &merged)) {
                Ok(compiled) => {
                    let uses = self.uses(&compiled, &merged.desired);
                    return Ok(Fitted { merged, rejected, left_names, uses, compiled });
                }
                Err(_) if self.is_brief => return Err(Stop::NotBrief),
                Err(faults) => faults,
            };
            // Each time at least one more is rejected, those of the lowest rank first: in the end the files stand alone.
            let before = (rejected.clone(), left_names.clone());
            let contributed = &merged.contributed;
            let is_found = contributed.leave_out(&faults, &mut left_names)
                || objects.leave_out(&faults, &files.desired, &mut rejected);
            if !is_found && affected.part().is_some() {
                (affected, rejected, left_names) = (Affected::All, LeftOut::new(), LeftNames::new());
                continue;
            }
            let is_less = is_found
                || contributed.leave_all(&faults, &mut left_names)
                || objects.leave_all(&faults, &mut rejected);
            if !is_less {
                return Err(Stop::Errors(faults));
            }
            if !self.widen(&mut affected, &rejected, &left_names, &before) {
                (affected, rejected, left_names) = (Affected::All, LeftOut::new(), LeftNames::new());
            }
        }
    }

    /// Adds what was rejected just now. Returns false if everything is affected.
    fn widen(
        &self,
        affected: &mut Affected,
        rejected: &LeftOut,
        left_names: &LeftNames,
        before: &(LeftOut, LeftNames),
    ) -> bool {
        let (Affected::Part(part), Some(previous)) = (affected, self.sources.previous) else { return true };
        let new: Vec<&Key> = rejected.differences(&before.0, |_, _| true).into_iter().map(|(key, ..)| key).collect();
        part.add_left_names(left_names.keys().filter(|name| !before.1.contains_key(*name)));
        new.into_iter().all(|key| part.add_rejected(key, &previous.configured, self.files, self.objects))
    }

    /// Checks the rules across objects. Files were checked by themselves when they were read.
    fn check(&self, affected: &Affected, merged: &MergedState) -> Result<(), Vec<Diagnostic>> {
        let desired = &merged.desired;
        let problems = match (affected.part(), self.sources.previous) {
            (Some(part), Some(previous)) => {
                let Touched { pools, names, records } = &part.touched;
                let of_pools = pools.iter().flat_map(|pool| names_of(&previous.snapshot, pool));
                let names: BTreeSet<&Name> = names.iter().chain(of_pools).collect();
                desired.violations_of(&part.monitors, pools, names, records)
            }
            _ if self.objects.is_empty() => vec![],
            _ => desired.violations(),
        };
        let errors = problems.into_iter().filter(|problem| problem.severity == Severity::Error);
        let faults: Vec<Diagnostic> =
            errors.map(|problem| problem.at(FileLocation::file("objects of the API"))).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn compile(&self, affected: &Affected, merged: &MergedState) -> Result<Snapshots, Vec<Diagnostic>> {
        let (desired, options) = (&*merged.desired, options(&self.files.settings));
        let previous = self.sources.previous;
        let touched = affected.part().map(|part| part.touched.clone());
        if let (Some(touched), Some(previous)) = (&touched, previous)
            && previous.configured.compile_warnings.is_empty()
            && let before = &previous.configured.merged.desired
            && let Some(snapshot) = revise(before, desired, touched, &options, &previous.snapshot)
        {
            let touched = Some(touched.clone());
            return Ok(Snapshots { snapshot, warnings: vec![], touched, is_incremental: true });
        }
        let before = previous.map(|previous| &*previous.snapshot);
        let (snapshot, warnings) = match (&self.files.zones, before) {
            (None, Some(before)) => recompile(desired, &options, before)?,
            (zones, before) => compile(desired, zones.as_deref().unwrap_or_default(), &options, before)?,
        };
        Ok(Snapshots { snapshot, warnings, touched, is_incremental: false })
    }

    fn uses(&self, compiled: &Snapshots, desired: &DesiredState) -> Uses {
        match (&compiled.touched, self.sources.previous) {
            (Some(touched), Some(previous)) if compiled.is_incremental => {
                let Configured { merged, uses, .. } = &*previous.configured;
                let pools = pools_concerned(&merged.desired, desired, touched);
                uses.revised(desired, previous.snapshot.targets(), &compiled.snapshot, &pools)
            }
            _ => Uses::new(desired, &compiled.snapshot),
        }
    }
}

/// What was compiled.
struct Snapshots {
    snapshot: Snapshot,
    warnings: Vec<Diagnostic>,
    touched: Option<Touched>,
    is_incremental: bool,
}

/// All that fits, compiled.
struct Fitted {
    merged: MergedState,
    rejected: LeftOut,
    left_names: LeftNames,
    uses: Uses,
    compiled: Snapshots,
}

fn options(settings: &Settings) -> ServerOptions {
    ServerOptions {
        identity: settings.identity.clone(),
        tcp_idle: settings.tcp.idle_timeout,
        udp_payload: settings.udp.payload_max,
        explain: settings.explain.clone(),
    }
}

/// The pools that changed, or answer other names than before.
fn pools_concerned(before: &DesiredState, after: &DesiredState, touched: &Touched) -> BTreeSet<PoolName> {
    let of_names = touched.names.iter().flat_map(|name| [before.names.get(name), after.names.get(name)]);
    of_names.flatten().map(|steered| steered.pool.clone()).chain(touched.pools.iter().cloned()).collect()
}

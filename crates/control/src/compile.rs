//! Merges, checks and compiles. Invalid objects are rejected, each with its reasons, until the others compile.
//!
//! ```text
//! last state ─┐
//!             ├─ affected ─► merge ─► check ─► compile ──► new state
//! sources ────┘   ▲                  └────────┴─ errors: reject the objects they are about
//!                 └───────────────────────────────┘
//! ```
//! The rejected objects are a function of the sources alone, not of the last state: every object that the last state rejected is tried
//! again.

use std::{collections::BTreeSet, sync::Arc};

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, PoolName, Severity, Timestamp};
use fairway_zones::{ChangedItems, ServerOptions, Snapshot, compile, recompile, revise};

use super::{
    affected::{Affected, names_of},
    configured::{Compiled, Configured, Files, MergedState, Rejected},
    declared::Declared,
    merge::Sources,
    uses::TargetUses,
};
use fairway_config::Settings;
use fairway_store::objects::Key;

/// The reason why nothing was compiled.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The files have errors.
    Errors(Vec<Diagnostic>),
    /// Compiling would take long.
    NotBrief,
}

/// One compilation.
pub(crate) struct Job<'a> {
    pub(crate) sources: Sources<'a>,
    pub(crate) files: &'a Arc<Files>,
    pub(crate) objects: &'a Arc<Declared>,
    pub(crate) now: Timestamp,
    /// If true, stops if an object is rejected, or if everything has to be merged.
    pub(crate) is_brief: bool,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Compiled, Stop> {
        let (overrides, of_overrides) = fairway_config::overrides(&self.files.overrides, self.now);
        let (errors, of_overrides): (Vec<_>, Vec<_>) = of_overrides.into_iter().partition(Diagnostic::is_error);
        let warnings = [&self.files.warnings[..], &of_overrides].concat();
        if errors.is_empty()
            && let Some(dry_run) = self.take_dry_run()
        {
            let Compiled { configured, .. } = dry_run;
            let warnings = [&warnings[..], &configured.compile_warnings].concat();
            let objects = Arc::clone(self.objects);
            return Ok(Compiled { configured: Configured { objects, overrides, warnings, ..configured }, ..dry_run });
        }
        let Valid { merged, rejected, uses, compiled } = match self.compile_valid() {
            Ok(valid) if errors.is_empty() => valid,
            Ok(_) => return Err(Stop::Errors(errors)),
            Err(Stop::Errors(more)) => return Err(Stop::Errors([errors, more].concat())),
            Err(stop) => return Err(stop),
        };
        let CompiledSnapshot { snapshot, warnings: compile_warnings, touched, is_incremental } = compiled;
        let mut not_served = merged.unserved_intents.clone();
        not_served.extend(rejected.objects.clone());
        let configured = Configured {
            settings: self.files.settings.clone(),
            files: self.files_kept(),
            objects: Arc::clone(self.objects),
            merged,
            rejected,
            not_served,
            overrides,
            uses,
            warnings: [warnings, compile_warnings.clone()].concat(),
            compile_warnings,
        };
        Ok(Compiled { configured, snapshot, touched, is_incremental })
    }

    /// Returns the result of a dry run of the same objects from the same state.
    fn take_dry_run(&self) -> Option<Compiled> {
        let previous = self.sources.previous?;
        if !Arc::ptr_eq(self.files, &previous.configured.files) {
            return None;
        }
        previous.dry_run.as_ref()?.take(previous, self.objects)
    }

    /// Returns the files without the text of zones, which is large and compiled.
    fn files_kept(&self) -> Arc<Files> {
        match &self.files.zones {
            None => Arc::clone(self.files),
            Some(_) => Arc::new(self.files.without_text()),
        }
    }

    /// Merges, checks and compiles without invalid objects. Fails if the files alone have errors.
    fn compile_valid(&self) -> Result<Valid, Stop> {
        let mut affected = Affected::between(self.sources.previous, self.files, self.objects);
        let mut rejected = Rejected::default();
        loop {
            if self.is_brief && affected.part().is_none() {
                return Err(Stop::NotBrief);
            }
            let mut grown = affected.clone();
            let Some(merged) = self.sources.merge(&mut grown, &mut rejected) else {
                (affected, rejected) = (Affected::All, Rejected::default());
                continue;
            };
            let errors = match self.check(&grown, &merged).and_then(|()| self.compile(&grown, &merged)) {
                Ok(compiled) => {
                    let uses = self.uses(&compiled, &merged.desired);
                    return Ok(Valid { merged, rejected, uses, compiled });
                }
                Err(_) if self.is_brief => return Err(Stop::NotBrief),
                Err(errors) => errors,
            };
            // Each round rejects at least one more, those of the lowest precedence first, until only the files are left.
            let before = rejected.clone();
            let is_found = merged.contributed.reject(&errors, &mut rejected.names)
                || self.objects.reject(&errors, &self.files.desired, &mut rejected.objects);
            if !is_found && affected.part().is_some() {
                (affected, rejected) = (Affected::All, Rejected::default());
                continue;
            }
            let is_any = is_found
                || merged.contributed.reject_all(&errors, &mut rejected.names)
                || self.objects.reject_all(&errors, &mut rejected.objects);
            if !is_any {
                return Err(Stop::Errors(errors));
            }
            if !self.widen(&mut affected, &rejected, &before) {
                (affected, rejected) = (Affected::All, Rejected::default());
            }
        }
    }

    /// Adds what was rejected in the last round to the affected parts. Returns false if everything is affected.
    fn widen(&self, affected: &mut Affected, rejected: &Rejected, before: &Rejected) -> bool {
        let (Affected::Part(part), Some(previous)) = (affected, self.sources.previous) else { return true };
        let new = rejected.objects.differences(&before.objects, |_, _| true).into_iter().map(|(key, ..)| key);
        let new: Vec<&Key> = new.collect();
        part.add_rejected_names(rejected.names.keys().filter(|name| !before.names.contains_key(*name)));
        new.into_iter().all(|key| part.add_rejected(key, &previous.configured, self.files, self.objects))
    }

    /// Checks the rules across objects. The files were checked when they were read.
    fn check(&self, affected: &Affected, merged: &MergedState) -> Result<(), Vec<Diagnostic>> {
        let desired = &merged.desired;
        let problems = match (affected.part(), self.sources.previous) {
            (Some(part), Some(previous)) => {
                let ChangedItems { pools, names, records } = &part.touched;
                let of_pools = pools.iter().flat_map(|pool| names_of(&previous.snapshot, pool));
                let names: BTreeSet<&Name> = names.iter().chain(of_pools).collect();
                desired.violations_of(&part.monitors, pools, names, records)
            }
            _ if self.objects.is_empty() => vec![],
            _ => desired.violations(),
        };
        let errors = problems.into_iter().filter(|problem| problem.severity == Severity::Error);
        let errors: Vec<Diagnostic> =
            errors.map(|problem| problem.at(FileLocation::file("objects of the API"))).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn compile(&self, affected: &Affected, merged: &MergedState) -> Result<CompiledSnapshot, Vec<Diagnostic>> {
        let (desired, options) = (&*merged.desired, options(&self.files.settings));
        let previous = self.sources.previous;
        let touched = affected.part().map(|part| part.touched.clone());
        if let (Some(touched), Some(previous)) = (&touched, previous)
            && previous.configured.compile_warnings.is_empty()
            && let before = &previous.configured.merged.desired
            && let Some(snapshot) = revise(before, desired, touched, &options, &previous.snapshot)
        {
            let touched = Some(touched.clone());
            return Ok(CompiledSnapshot { snapshot, warnings: vec![], touched, is_incremental: true });
        }
        let before = previous.map(|previous| &*previous.snapshot);
        let (snapshot, warnings) = match (&self.files.zones, before) {
            (None, Some(before)) => recompile(desired, &options, before)?,
            (zones, before) => compile(desired, zones.as_deref().unwrap_or_default(), &options, before)?,
        };
        Ok(CompiledSnapshot { snapshot, warnings, touched, is_incremental: false })
    }

    fn uses(&self, compiled: &CompiledSnapshot, desired: &DesiredState) -> TargetUses {
        match (&compiled.touched, self.sources.previous) {
            (Some(touched), Some(previous)) if compiled.is_incremental => {
                let Configured { merged, uses, .. } = &*previous.configured;
                let pools = affected_pools(&merged.desired, desired, touched);
                uses.revised(desired, previous.snapshot.targets(), &compiled.snapshot, &pools)
            }
            _ => TargetUses::new(desired, &compiled.snapshot),
        }
    }
}

/// A compiled snapshot.
struct CompiledSnapshot {
    snapshot: Snapshot,
    warnings: Vec<Diagnostic>,
    touched: Option<ChangedItems>,
    is_incremental: bool,
}

/// Everything that is valid, compiled.
struct Valid {
    merged: MergedState,
    rejected: Rejected,
    uses: TargetUses,
    compiled: CompiledSnapshot,
}

fn options(settings: &Settings) -> ServerOptions {
    ServerOptions {
        identity: settings.identity.clone(),
        tcp_idle: settings.tcp.idle_timeout,
        udp_payload: settings.udp.payload_max,
        explain: settings.explain.clone(),
    }
}

/// Returns the pools that changed, or answer other names than before.
fn affected_pools(before: &DesiredState, after: &DesiredState, touched: &ChangedItems) -> BTreeSet<PoolName> {
    let of_names = touched.names.iter().flat_map(|name| [before.names.get(name), after.names.get(name)]);
    of_names.flatten().map(|steered| steered.pool.clone()).chain(touched.pools.iter().cloned()).collect()
}

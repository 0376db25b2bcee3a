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

use fairway_model::{DesiredState, Diagnostic, FileLocation, Name, Override, PoolName, Severity, Timestamp};
use fairway_zones::{ChangedItems, CookieKeys, ServerCookieKey, ServerOptions, Snapshot, compile, recompile, revise};

use super::{
    affected::AffectedParts,
    configured::{Compiled, Configured, Files, LookedUp, MergedState, Previous, Rejected},
    declared::Declared,
    uses::TargetUses,
};
use fairway_config::{CookieSettings, Settings};

/// The reason why nothing was compiled.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The files have errors.
    Errors(Vec<Diagnostic>),
    /// Compiling would take long.
    NotBrief,
}

/// One compilation, from everything that contributes to the desired state.
pub(crate) struct Job<'a> {
    /// The last state with its snapshot; `None` at the start.
    pub(crate) previous: Option<&'a Previous>,
    pub(crate) files: &'a Arc<Files>,
    pub(crate) objects: &'a Arc<Declared>,
    /// The overrides in force that pin pools.
    pub(crate) load_off: &'a [Override],
    /// Results of look-ups and of clusters that are read.
    pub(crate) looked_up: &'a LookedUp,
    /// The key of cookies, if the files list none.
    pub(crate) cookie_key: &'a ServerCookieKey,
    /// The name of the configuration, for messages.
    pub(crate) owner: &'a str,
    pub(crate) now: Timestamp,
    /// If true, stops if an object is rejected, or if everything has to be merged.
    pub(crate) is_brief: bool,
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Compiled, Stop> {
        let (overrides, of_overrides) = fairway_config::overrides(&self.files.overrides, self.now);
        let (errors, of_overrides): (Vec<_>, Vec<_>) = of_overrides.into_iter().partition(Diagnostic::is_error);
        let dry_run = if errors.is_empty() { self.take_dry_run() } else { None };
        let mut compiled = match dry_run.map_or_else(|| self.compile_valid(), Ok) {
            Err(Stop::Errors(more)) => return Err(Stop::Errors([errors, more].concat())),
            Ok(_) if !errors.is_empty() => return Err(Stop::Errors(errors)),
            result => result?,
        };
        let configured = &mut compiled.configured;
        configured.objects = Arc::clone(self.objects);
        configured.overrides = overrides;
        configured.warnings = [&self.files.warnings[..], &of_overrides, &configured.compile_warnings].concat();
        Ok(compiled)
    }

    /// Returns the result of a dry run of the same objects from the same state.
    fn take_dry_run(&self) -> Option<Compiled> {
        let previous = self.previous?;
        if !Arc::ptr_eq(self.files, &previous.configured.files) {
            return None;
        }
        previous.dry_run.as_ref()?.take(previous, self.objects, (self.load_off, self.looked_up))
    }

    /// Returns the files without the text of zones, which is large and compiled.
    fn files_kept(&self) -> Arc<Files> {
        match &self.files.zones {
            None => Arc::clone(self.files),
            Some(_) => Arc::new(Files { zones: None, ..Files::clone(self.files) }),
        }
    }

    /// Merges, checks and compiles without invalid objects. Fails if the files alone have errors.
    fn compile_valid(&self) -> Result<Compiled, Stop> {
        let mut affected = self.previous.and_then(|previous| {
            AffectedParts::between(previous, self.files, self.objects, (self.load_off, self.looked_up))
        });
        let mut rejected = Rejected::default();
        loop {
            if self.is_brief && affected.is_none() {
                return Err(Stop::NotBrief);
            }
            let mut grown = affected.clone();
            let Some(merged) = self.merge(&mut grown, &mut rejected) else {
                (affected, rejected) = (None, Rejected::default());
                continue;
            };
            let part = grown.as_ref();
            let errors = match self.check(part, &merged).and_then(|()| self.compile(part, &merged)) {
                Ok(compiled) => return Ok(self.compiled(merged, rejected, compiled, grown)),
                Err(_) if self.is_brief => return Err(Stop::NotBrief),
                Err(errors) => errors,
            };
            // Each round rejects at least one more, those of the lowest precedence first, until only the files are left.
            let before = rejected.clone();
            let is_found = merged.contributed.reject(&errors, &mut rejected.names)
                || self.objects.reject(&errors, &self.files.desired, &merged.desired, &mut rejected.objects);
            if !is_found && affected.is_some() {
                (affected, rejected) = (None, Rejected::default());
                continue;
            }
            let is_any = is_found
                || merged.contributed.reject_all(&errors, &mut rejected.names)
                || self.objects.reject_all(&errors, &mut rejected.objects);
            if !is_any {
                return Err(Stop::Errors(errors));
            }
            if affected.as_mut().is_some_and(|part| !self.widen(part, &rejected, &before)) {
                (affected, rejected) = (None, Rejected::default());
            }
        }
    }

    /// Adds what was rejected in the last round to the affected parts. Returns false if everything is affected.
    fn widen(&self, part: &mut AffectedParts<'_>, rejected: &Rejected, before: &Rejected) -> bool {
        let new = rejected.names.keys().filter(|key| !before.names.contains_key(*key));
        part.add_rejected_names(new.map(|(name, _)| name));
        let mut new = rejected.objects.differences(&before.objects, |_, _| true).into_iter();
        new.all(|(key, ..)| part.add_rejected(key, self.files, self.objects))
    }

    /// Checks the rules across objects. The files were checked when they were read.
    fn check(&self, affected: Option<&AffectedParts<'_>>, merged: &MergedState) -> Result<(), Vec<Diagnostic>> {
        let desired = &merged.desired;
        let problems = match affected {
            Some(part) => {
                let ChangedItems { pools, names, records } = &part.touched;
                let of_pools = pools.iter().flat_map(|pool| part.names_of(pool));
                let names: BTreeSet<&Name> = names.iter().chain(of_pools).collect();
                desired.violations_of(&part.monitors, pools, names, records)
            }
            None if self.objects.is_empty() => vec![],
            None => desired.violations(),
        };
        let errors = problems.into_iter().filter(|problem| problem.severity == Severity::Error);
        let errors: Vec<Diagnostic> =
            errors.map(|problem| problem.at(FileLocation::file("objects of the API"))).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    fn compile(
        &self,
        affected: Option<&AffectedParts<'_>>,
        merged: &MergedState,
    ) -> Result<CompiledSnapshot, Vec<Diagnostic>> {
        let (desired, options) = (&*merged.desired, options(&self.files.settings, self.cookie_key));
        if let Some(part) = affected
            && let Previous { configured, snapshot, .. } = part.previous
            && configured.compile_warnings.is_empty()
            && let Some(snapshot) = revise(&configured.merged.desired, desired, &part.touched, &options, snapshot)
        {
            return Ok(CompiledSnapshot { snapshot, warnings: vec![], is_incremental: true });
        }
        let before = self.previous.map(|previous| &*previous.snapshot);
        let (snapshot, warnings) = match (&self.files.zones, before) {
            (None, Some(before)) => recompile(desired, &options, before)?,
            (zones, before) => compile(desired, zones.as_deref().unwrap_or_default(), &options, before)?,
        };
        Ok(CompiledSnapshot { snapshot, warnings, is_incremental: false })
    }

    /// Returns the configuration with its snapshot, as yet without overrides.
    fn compiled(
        &self,
        merged: MergedState,
        rejected: Rejected,
        compiled: CompiledSnapshot,
        affected: Option<AffectedParts<'_>>,
    ) -> Compiled {
        let CompiledSnapshot { snapshot, warnings: compile_warnings, is_incremental } = compiled;
        let uses = match &affected {
            Some(AffectedParts { previous, touched, .. }) if is_incremental => {
                let pools = affected_pools(&previous.configured.merged.desired, &merged.desired, touched);
                previous.configured.uses.revised(previous.snapshot.targets(), &snapshot, &pools)
            }
            _ => TargetUses::new(&merged.desired, &snapshot),
        };
        let mut not_served = merged.unserved_intents.clone();
        not_served.extend(rejected.objects.clone());
        let configured = Configured {
            settings: self.files.settings.clone(),
            files: self.files_kept(),
            objects: Arc::clone(self.objects),
            merged,
            rejected,
            not_served,
            overrides: vec![],
            load_off: self.load_off.to_vec(),
            looked_up: self.looked_up.clone(),
            uses,
            warnings: vec![],
            compile_warnings,
        };
        let touched = affected.map(|part| part.touched);
        Compiled { configured, snapshot, touched, is_incremental, removals: vec![], text_changes: vec![] }
    }
}

/// A compiled snapshot.
struct CompiledSnapshot {
    snapshot: Snapshot,
    warnings: Vec<Diagnostic>,
    is_incremental: bool,
}

fn options(settings: &Settings, cookie_key: &ServerCookieKey) -> ServerOptions {
    ServerOptions {
        identity: settings.identity.clone(),
        tcp_idle: settings.tcp.idle_timeout,
        udp_payload: settings.udp.payload_max,
        challenge: settings.challenge,
        explain: settings.explain.clone(),
        cookies: match &settings.cookies {
            CookieSettings::Off => CookieKeys::Off,
            CookieSettings::OwnKey => CookieKeys::OfServer(cookie_key.clone()),
            CookieSettings::Keys(keys) => CookieKeys::Listed(Arc::clone(keys)),
        },
        rate_limits: settings.rate_limits.clone(),
    }
}

/// Returns the pools that changed, or answer other names than before.
fn affected_pools(before: &DesiredState, after: &DesiredState, touched: &ChangedItems) -> BTreeSet<PoolName> {
    let of_names = touched.names.iter().flat_map(|name| [before.names.get(name), after.names.get(name)]);
    of_names.flatten().map(|steered| steered.pool.clone()).chain(touched.pools.iter().cloned()).collect()
}

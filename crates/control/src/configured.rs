//! The configuration in force, and what it was made from.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use fairway_config::{FileObjects, Loaded, MapCache, OverrideSpec, Settings, ZoneCache};
use fairway_contributions::{Contributed, OwnedRow, RejectedNames};
use fairway_model::{
    ContributedName, DeclaredClusters, DesiredState, Diagnostic, HostAddresses, Member, Name, Override, PinnedPools,
    Pool, Rtype, SharedSet, WeightOrigin,
};
use fairway_sources::{Found, WeighedPools, owned_rows};
use fairway_store::objects::Key;
use fairway_zonefile::ZoneData;
use fairway_zones::{ChangedItems, Snapshot};

use super::{
    declared::{Declared, ObjectErrors, Releases, TakeOvers},
    uses::TargetUses,
};

/// An accepted configuration, without its snapshot.
#[derive(Clone, Debug)]
pub struct Configured {
    /// Settings of the process.
    pub settings: Settings,
    /// The files.
    pub files: Arc<Files>,
    /// The declared objects that it was made from.
    pub objects: Arc<Declared>,
    /// Files, objects and contributions, merged.
    pub merged: MergedState,
    /// Objects and names that were excluded from the merge. Each reload tries them again.
    pub rejected: Rejected,
    /// Declared objects that are not served, with the reasons: rejected ones, and intents without a cluster.
    pub not_served: ObjectErrors,
    /// Overrides of the files that have not expired.
    pub overrides: Vec<Override>,
    /// Overrides, of all sources, that pinned pools when it was compiled.
    pub load_off: Vec<Override>,
    /// Results of look-ups, and of clusters that are read, that it was made with.
    pub looked_up: LookedUp,
    /// Clusters and pools of each target.
    pub uses: TargetUses,
    /// All warnings.
    pub warnings: Vec<Diagnostic>,
    /// Warnings of the compilation. An incremental compilation would lose them, so it is not used while there are any.
    pub compile_warnings: Vec<Diagnostic>,
}

/// Results of look-ups, and of clusters that are read: neither files nor the store have them.
#[derive(Clone, Debug, Default)]
pub struct LookedUp {
    /// The addresses that host names of clusters were resolved to.
    pub hosts: HostAddresses,
    /// Names, addresses and endpoints that Kubernetes clusters have.
    pub found: Found,
}

impl LookedUp {
    /// Returns true if both are the same. Of what was found, versions are compared, since there may be much.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let is_same = |(ours, theirs): (_, _)| Arc::ptr_eq(ours, theirs);
        self.hosts == other.hosts
            && self.found.keys().eq(other.found.keys())
            && self.found.values().zip(other.found.values()).all(is_same)
    }
}

/// Objects and names that are excluded since they are invalid together with the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rejected {
    /// Declared objects, with the reasons.
    pub objects: ObjectErrors,
    /// Contributed names, with the reasons.
    pub names: RejectedNames,
}

/// Files, declared objects and contributions, merged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergedState {
    /// Declarations of files and objects.
    pub declared: Arc<DesiredState>,
    /// The same with the contributions of webhook clients.
    pub desired: Arc<DesiredState>,
    /// Pools of it that overrides pin, with their declared policies.
    pub pinned: PinnedPools,
    /// Origins of the weights of pools of it that follow objects of Kubernetes clusters.
    pub weighed: WeighedPools,
    /// Names of it that the files do not steer.
    pub not_in_files: SharedSet<Name>,
    /// Objects that the files declare differently, with what is in force.
    pub conflicts: BTreeMap<Key, String>,
    /// Contributions of webhook clients.
    pub contributed: Arc<Contributed>,
    /// The declared clusters.
    pub clusters: Arc<DeclaredClusters>,
    /// Valid intents that are not served, with the reasons.
    pub unserved_intents: ObjectErrors,
    /// Names that wait for the TTL of the old answers, since somebody else had them.
    pub take_overs: TakeOvers,
    /// Names that the files gave up a short time ago.
    pub(crate) released_by_files: Releases,
}

/// A steered member that a webhook client contributes, with the origin of its weight.
pub struct ContributedMember<'a> {
    /// The steered name.
    pub name: &'a Name,
    /// Its pool, merged.
    pub pool: &'a Pool,
    /// The member, merged.
    pub member: &'a Member,
    /// The contribution that the weight comes from.
    pub origin: &'a WeightOrigin,
}

impl Configured {
    /// Returns the contributed record set that was rejected because it would have hidden a name: an NS or DNAME at or above it, or a
    /// CNAME at it.
    pub fn rejected_over(&self, name: &Name) -> Option<(&Name, Rtype)> {
        if self.rejected.names.is_empty() {
            return None;
        }
        std::iter::successors(Some(name.clone()), Name::parent).find_map(|above| {
            let hiding = [Rtype::NS, Rtype::DNAME, Rtype::CNAME].into_iter();
            let mut hiding = hiding.filter(|rtype| *rtype != Rtype::CNAME || above == *name);
            hiding.find_map(|rtype| {
                let ((above, _), _) = self.rejected.names.get_key_value(&(above.clone(), Some(rtype)))?;
                Some((above, rtype))
            })
        })
    }

    /// Returns the owners of contributions to the names with these texts, in lower case without final dot.
    pub fn owners_of(&self, texts: &BTreeSet<String>) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
        let mut owners: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        let read = owned_rows(&self.looked_up.found, Some(texts));
        for OwnedRow { owner, row, .. } in self.objects.owned_rows(Some(texts)).into_iter().chain(read) {
            owners.entry(Arc::clone(&row.text)).or_default().insert(owner);
        }
        owners
    }

    /// Returns the contributed members that are not declared as well, by name.
    pub fn contributed_members(&self) -> impl Iterator<Item = ContributedMember<'_>> {
        let names = self.merged.contributed.merged_names.names();
        names.flat_map(|(name, of_name)| self.members_of(name, of_name))
    }

    /// Returns those of one name.
    pub fn contributed_members_of<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = ContributedMember<'a>> {
        let of_name = self.merged.contributed.merged_names.of_name(name);
        of_name.into_iter().flat_map(move |of_name| self.members_of(name, of_name))
    }

    fn members_of<'a>(
        &'a self,
        name: &'a Name,
        of_name: &'a ContributedName,
    ) -> impl Iterator<Item = ContributedMember<'a>> {
        let MergedState { contributed, desired, declared, .. } = &self.merged;
        let [offered, pool] = [contributed.merged_names.desired(), desired]
            .map(|desired| of_name.pool.as_ref().and_then(|pool| desired.pools.get(pool)));
        let offered = offered.map_or(&[][..], |pool| &pool.members);
        offered.iter().zip(&of_name.origins).filter_map(move |(offered, origin)| {
            let pool = pool?;
            let member = pool.members.iter().find(|member| member.cluster == offered.cluster)?;
            let mut others = declared.pools.get(&pool.name).into_iter().flat_map(|pool| &pool.members);
            let is_declared = others.any(|other| other.cluster == offered.cluster);
            (!is_declared).then_some(ContributedMember { name, pool, member, origin })
        })
    }
}

/// The content of the files.
#[derive(Clone, Debug)]
pub struct Files {
    pub(crate) settings: Settings,
    pub(crate) desired: Arc<DesiredState>,
    /// Text of all zones; `None` if it did not change.
    pub zones: Option<Arc<[ZoneData]>>,
    /// Cache of zone files for the next reload.
    pub kept: ZoneCache,
    /// Cache of maps and latency tables for the next reload.
    pub kept_maps: MapCache,
    pub(crate) overrides: Vec<OverrideSpec>,
    /// Objects as they are written there.
    pub objects: Arc<FileObjects>,
    pub(crate) warnings: Vec<Diagnostic>,
}

impl From<Loaded> for Files {
    fn from(loaded: Loaded) -> Self {
        Self {
            settings: loaded.settings,
            desired: Arc::new(loaded.desired),
            zones: (!loaded.zones_unchanged).then(|| loaded.zones.into()),
            kept: loaded.zone_cache,
            kept_maps: loaded.map_cache,
            overrides: loaded.overrides,
            objects: Arc::new(loaded.file_objects),
            warnings: loaded.warnings,
        }
    }
}

/// A compiled configuration.
#[derive(Debug)]
pub struct Compiled {
    /// The configuration.
    pub configured: Configured,
    /// Its snapshot.
    pub snapshot: Snapshot,
    /// The merged and checked parts; `None` for everything.
    pub touched: Option<ChangedItems>,
    /// True if only these parts were compiled; then little memory can be returned to the system.
    pub is_incremental: bool,
    /// Errors for removed names of the files, unless their removal is allowed.
    pub removals: Vec<Diagnostic>,
    /// Counts of changed record sets of zone files, a line for each zone; empty unless files were read again.
    pub text_changes: Vec<String>,
}

/// The state that serves while a new one is made.
#[derive(Clone)]
pub struct Previous {
    pub(crate) configured: Arc<Configured>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// The last dry run from this state.
    pub dry_run: Option<Arc<CompiledDryRun>>,
}

impl Previous {
    /// Returns a state without a dry run.
    pub fn new(configured: Arc<Configured>, snapshot: Arc<Snapshot>) -> Self {
        Self { configured, snapshot, dry_run: None }
    }
}

/// The compiled result of a dry run. The caller holds it until it has committed the objects or given up.
#[derive(Debug)]
pub struct CompiledDryRun {
    /// The configuration that it was compiled from.
    before: Weak<Configured>,
    compiled: Mutex<Option<Compiled>>,
}

impl CompiledDryRun {
    pub(crate) fn new(compiled: Compiled, before: &Arc<Configured>) -> Self {
        Self { before: Arc::downgrade(before), compiled: Mutex::new(Some(compiled)) }
    }

    /// Takes the result, if the same objects were committed (whatever their revisions are), and configuration, pinned pools and addresses of
    /// host names are still the same.
    pub(crate) fn take(
        &self,
        previous: &Previous,
        objects: &Declared,
        (load_off, looked_up): (&[Override], &LookedUp),
    ) -> Option<Compiled> {
        let mut slot = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = std::ptr::eq(self.before.as_ptr(), Arc::as_ptr(&previous.configured));
        let is_equivalent = |of: &Configured| {
            of.load_off == load_off && of.looked_up.is_same(looked_up) && of.objects.is_equivalent(objects)
        };
        slot.take_if(|compiled| is_same && is_equivalent(&compiled.configured))
    }

    /// Frees the result.
    pub(crate) fn discard(&self) {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

//! A publisher that writes DNSEndpoint objects to a cluster.
//!
//! ```text
//! wanted ─► publisher: plan ─► list ours ─► render ─► create, apply ─► delete
//!                                 ▲                         ▲
//!                              labels               Lease: only the leader writes
//! ```
//! An object is created (`POST`), so that one of others with this name is never changed, and changed by server-side apply with the version
//! that was read. `lease.rs` decides who leads, and `writes` what is written; both are pure.

mod election;
mod lease;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use fairway_model::{Changes, ClusterName, KubernetesApi, ProviderRecordSet};
use fairway_providers::{
    dnsendpoint::{Object, Objects},
    publish::{Leadership, Limits, Provider, ProviderError},
};
use futures_util::{StreamExt, TryStreamExt, stream};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::json;
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};

use self::election::{Election, WRITE_MAX};
use crate::connection::{CONFLICT, Connection, Failure, NOT_FOUND, Right};

/// DNSEndpoint objects of a publisher in a cluster.
pub struct ClusterDnsEndpoints {
    objects: Objects,
    connection: Arc<Connection>,
    election: Election,
    /// Held while objects are written.
    writing: Mutex<()>,
}

/// An object of ours as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    object: Object,
    version: String,
}

/// A write of one object.
#[derive(Debug, PartialEq, Eq)]
enum Write {
    Create(Object),
    /// Applies the object if its version is this one.
    Apply(Object, String),
    /// Deletes the object of this name, if its version is this one.
    Delete(String, String),
}

impl ClusterDnsEndpoints {
    /// Writes these objects to a cluster, while this server holds the Lease of the publisher. `identity` is the holder of the Lease; it must
    /// differ between processes.
    pub fn start(cluster: ClusterName, api: Arc<KubernetesApi>, objects: Objects, identity: String) -> Self {
        let connection = Arc::new(Connection::new(cluster, api));
        let election = Election::start(Arc::clone(&connection), &objects, identity);
        Self { objects, connection, election, writing: Mutex::default() }
    }

    async fn api(&self) -> Result<Api<DynamicObject>, Failure> {
        Ok(Api::namespaced_with(self.connection.client().await?, &self.objects.namespace, &resource()))
    }

    fn right(&self, verb: &'static str) -> Right<'_> {
        Right { verb, resource: PLURAL, group: GROUP, namespace: &self.objects.namespace }
    }

    /// Returns an error of one object.
    fn error(&self, name: &str, what: &str) -> ProviderError {
        let text = format!("DNSEndpoint {}/{name}: {what}", self.objects.namespace);
        self.connection.failure(0, &text).into()
    }

    /// Returns our objects by name, as they are now.
    async fn list(&self) -> Result<BTreeMap<String, Listed>, ProviderError> {
        let labels: Vec<_> = self.objects.labels().iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut page = ListParams::default().labels(&labels.join(",")).limit(PAGE);
        let mut all = BTreeMap::new();
        let api = self.api().await?;
        loop {
            let list = self.connection.answer(self.right("list"), LIST_MAX, api.list(&page)).await?;
            for mut found in list.items {
                let (Some(name), Some(version)) = (found.metadata.name, found.metadata.resource_version) else {
                    continue;
                };
                if !self.objects.is_name(&name) {
                    continue;
                }
                let what = "it was changed by others; delete it, and Fairway writes it again";
                let object = Object::with_spec(&self.objects, &name, found.data["spec"].take());
                let object = object.ok_or_else(|| self.error(&name, what))?;
                all.insert(name, Listed { object, version });
            }
            if all.len() > OBJECTS_MAX {
                let what = format!("more than {OBJECTS_MAX} objects have the labels of this publisher");
                return Err(self.connection.failure(0, &what).into());
            }
            let next = list.metadata.continue_.filter(|next| !next.is_empty());
            let Some(next) = next else { return Ok(all) };
            page = page.continue_token(&next);
        }
    }

    async fn write(&self, write: Write) -> Result<(), ProviderError> {
        // Before each one, since many take longer than the Lease.
        self.election.check()?;
        let (api, manager) = (self.api().await?, Some(FIELD_MANAGER.to_owned()));
        match write {
            Write::Create(object) => {
                let parameters = PostParams { field_manager: manager, ..PostParams::default() };
                let name = object.name().to_owned();
                let object = self.dynamic(&object);
                let created = api.create(&parameters, &object);
                let created = self.connection.answer(self.right("create"), WRITE_MAX, created).await;
                let labels = self.objects.labels().into_iter().map(|(key, value)| format!("{key}: {value}"));
                let labels = labels.collect::<Vec<_>>().join(", ");
                let what = format!(
                    "an object of others has this name, without the labels {labels}, and is not changed; delete it, or rename the provider"
                );
                self.explained(&name, created.map(drop), &what)
            }
            Write::Apply(object, version) => {
                let parameters = PatchParams { field_manager: manager, force: true, ..PatchParams::default() };
                let patch = Patch::Apply(object.to_json(Some(&version)));
                let applied = api.patch(object.name(), &parameters, &patch);
                let applied = self.connection.answer(self.right("patch"), WRITE_MAX, applied).await;
                self.explained(object.name(), applied.map(drop), CHANGED)
            }
            Write::Delete(name, version) => {
                let condition = Preconditions { resource_version: Some(version), uid: None };
                let parameters = DeleteParams::default().preconditions(condition);
                let deleted = api.delete(&name, &parameters);
                match self.connection.answer(self.right("delete"), WRITE_MAX, deleted).await {
                    Err(Failure { code: NOT_FOUND, .. }) => Ok(()),
                    deleted => self.explained(&name, deleted.map(drop), CHANGED),
                }
            }
        }
    }

    /// Returns the object as kube creates it.
    fn dynamic(&self, object: &Object) -> DynamicObject {
        let mut json = object.to_json(None);
        let mut dynamic = DynamicObject::new(object.name(), &resource()).data(json!({ "spec": json["spec"].take() }));
        dynamic.metadata.labels = Some(self.objects.labels());
        dynamic
    }

    /// Adds the name of the object to a failure, and the reason of a conflict.
    fn explained(&self, name: &str, result: Result<(), Failure>, conflict: &str) -> Result<(), ProviderError> {
        result.map_err(|failure| match failure.code {
            CONFLICT => self.error(name, conflict),
            code => {
                let text = format!("{} (DNSEndpoint {}/{name})", failure.text, self.objects.namespace);
                Failure { code, text }.into()
            }
        })
    }
}

#[async_trait]
impl Provider for ClusterDnsEndpoints {
    fn limits(&self) -> Limits {
        self.objects.limits(CALL_MAX)
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let listed = self.list().await?;
        Ok(Objects::sets(listed.into_values().map(|listed| listed.object)).into_values().collect())
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let _writing = self.writing.lock().await;
        self.election.check()?;
        let listed = self.list().await?;
        let mut sets = Objects::sets(listed.values().map(|listed| listed.object.clone()));
        changes.apply_to(&mut sets);
        let (puts, deletes) = writes(listed, self.objects.render(sets.into_values())?);
        // A name may be in two objects for a moment, but never in none.
        for writes in [puts, deletes] {
            let all = stream::iter(writes).map(|write| self.write(write)).buffer_unordered(WRITES_MAX);
            all.try_collect::<()>().await?;
        }
        Ok(())
    }

    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        Some(self.election.leadership())
    }

    async fn resign(&self) {
        // If the call in progress takes longer, the Lease ends by itself.
        if let Ok(_writing) = timeout(WRITE_MAX, self.writing.lock()).await {
            self.election.end().await;
        }
    }
}

fn resource() -> ApiResource {
    ApiResource {
        group: GROUP.to_owned(),
        version: "v1alpha1".to_owned(),
        api_version: format!("{GROUP}/v1alpha1"),
        kind: "DNSEndpoint".to_owned(),
        plural: PLURAL.to_owned(),
    }
}

/// Returns the writes that make the listed objects the wanted ones: those that create or change, and then those that delete.
fn writes(mut listed: BTreeMap<String, Listed>, wanted: BTreeMap<String, Object>) -> (Vec<Write>, Vec<Write>) {
    let put = |(name, object): (String, Object)| match listed.remove(&name) {
        Some(there) => (there.object != object).then_some(Write::Apply(object, there.version)),
        None => Some(Write::Create(object)),
    };
    let puts = wanted.into_iter().filter_map(put).collect();
    let deletes = listed.into_iter().map(|(name, there)| Write::Delete(name, there.version)).collect();
    (puts, deletes)
}

/// Returns the identity of this process in Leases: the host name, which operators know, and a random number, since each start is another
/// holder.
pub fn process_identity() -> String {
    static IDENTITY: LazyLock<String> = LazyLock::new(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host: String = host.trim().chars().take(HOST_MAX).collect();
        // The keys of its hash are random.
        format!("{host}_{:016x}", RandomState::new().hash_one(std::process::id()))
    });
    IDENTITY.clone()
}

/// Group and plural of DNSEndpoint objects.
pub(crate) const RESOURCE: [&str; 2] = [GROUP, PLURAL];
const GROUP: &str = "externaldns.k8s.io";
const PLURAL: &str = "dnsendpoints";
/// Owner of the fields that we write, in `managedFields`.
pub(crate) const FIELD_MANAGER: &str = "fairway";
const CHANGED: &str = "it was changed by others since it was read";
/// Number of objects of a page: at most 1.5 MiB each, as in etcd.
const PAGE: u32 = 20;
/// Maximum number of our objects. A million names with two sets each have 4,096, by three digits of their hashes.
const OBJECTS_MAX: usize = 8_192;
/// Maximum number of writes at once.
const WRITES_MAX: usize = 8;
/// Longest time for a page.
const LIST_MAX: Duration = Duration::from_secs(10);
/// Longest time of a call: 4,096 objects at a few hundred writes per second, and their list before.
const CALL_MAX: Duration = Duration::from_secs(60);
/// Maximum number of characters of the host name in an identity, as in Linux.
const HOST_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use fairway_model::{RecordSet, Rtype, Ttl};

    use super::*;

    fn objects() -> Objects {
        Objects { name: "corp".to_owned(), namespace: "dns".to_owned(), weights: None }
    }

    fn rendered(last: u8) -> BTreeMap<String, Object> {
        let rdata = Box::from([192, 0, 2, last]);
        let set = RecordSet::new("a.x.".parse().unwrap(), Rtype::A, Ttl::STEERED, [rdata]);
        objects().render([ProviderRecordSet::plain(set)].into_iter()).unwrap()
    }

    /// Returns objects as the API server lists them.
    fn listed(objects: BTreeMap<String, Object>) -> BTreeMap<String, Listed> {
        let listed = |(name, object)| (name, Listed { object, version: "7".to_owned() });
        objects.into_iter().map(listed).collect()
    }

    #[test]
    fn writes_are_those_of_objects_that_differ() {
        let object = || rendered(1).into_values().next().unwrap();
        let name = "fairway-corp-all".to_owned();
        assert_eq!(writes(BTreeMap::new(), rendered(1)), (vec![Write::Create(object())], vec![]));
        assert_eq!(writes(listed(rendered(1)), rendered(1)), (vec![], vec![]));
        let changed = vec![Write::Apply(object(), "7".to_owned())];
        assert_eq!(writes(listed(rendered(2)), rendered(1)), (changed, vec![]));
        let deleted = vec![Write::Delete(name, "7".to_owned())];
        assert_eq!(writes(listed(rendered(1)), BTreeMap::new()), (vec![], deleted));
    }

    #[test]
    fn object_that_is_listed_is_the_one_that_was_written() {
        let objects = objects();
        let object = rendered(1).into_values().next().unwrap();
        let json = object.to_json(Some("7"));
        assert_eq!(json["metadata"]["resourceVersion"], "7");
        assert_eq!(Object::with_spec(&objects, object.name(), json["spec"].clone()).as_ref(), Some(&object));
        assert_eq!(Object::with_spec(&objects, object.name(), json!({ "endpoints": 1 })), None);
        assert!(objects.is_name("fairway-corp-all") && objects.is_name("fairway-corp-0f"));
        assert!(!objects.is_name("fairway-corp-backup") && !objects.is_name("fairway-corp-"));
    }
}

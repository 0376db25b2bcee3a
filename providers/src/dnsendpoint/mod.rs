//! Kubernetes objects (`externaldns.k8s.io/v1alpha1`, DNSEndpoint) in a folder: what ExternalDNS then reads with `--source=crd`.
//!
//! ```text
//! FOLDER/fairway-NAME-all.json              all names, while they fit into one object
//! FOLDER/fairway-NAME-0.json … -f.json      then a sixteenth each, by the first digit of a hash of the name; and so on
//! ```
//! So an object's name follows from what is in it, and a change of one name touches one file. A file is replaced whole; files that are
//! needed no more go last, so that a name may stand in two for a moment and never in none. Files without our labels are nobody's business.
//!
//! Left out: writing to an API server; `kubectl apply --prune`, or whatever watches the folder, does. Who owns a record at the provider
//! behind it is ExternalDNS' matter: it has a registry of its own.

mod object_wire;

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use fairway_files::Readers;
use fairway_model::{Changes, ProviderRecordSet, RecordSetKey};
use ring::digest::{SHA256, digest};

use self::object_wire::{About, Object};
use crate::{
    Endpoint, Json, endpoint,
    publish::{Limits, Provider, ProviderError, Weights},
};

/// A folder of objects.
#[derive(Clone, Debug)]
pub struct DnsEndpoints {
    /// The folder. Where there is none yet, it is made.
    pub folder: PathBuf,
    /// Tells our objects from those of other publishers: in their names and their label `app.kubernetes.io/instance`.
    pub name: String,
    /// Their namespace.
    pub namespace: String,
    /// How the provider behind ExternalDNS is told weights; none if it knows no set identifiers.
    pub weights: Option<Weights>,
}

#[async_trait]
impl Provider for DnsEndpoints {
    fn limits(&self) -> Limits {
        let timeout = Duration::from_secs(10);
        Limits { batch_max: 100_000, types: Some(endpoint::TYPES), weights: self.weights, timeout }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let all = self.clone();
        beside(move || Ok(all.sets()?.into_values().collect())).await
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let (all, changes) = (self.clone(), changes.clone());
        beside(move || all.change(changes)).await
    }
}

impl DnsEndpoints {
    fn sets(&self) -> Result<BTreeMap<RecordSetKey, ProviderRecordSet>, ProviderError> {
        let mut endpoints = Vec::new();
        for (file, path) in self.files().map_err(|error| away(&self.folder, &error))? {
            let object = fs::read(&path).map_err(|error| away(&path, &error))?;
            let object = Object::from_json(&object).ok().filter(|object| object.is_of(&self.about(&file)));
            let what = "it is not as it was written; take it away, and it is written anew";
            let object = object.ok_or_else(|| away(&path, &what))?;
            endpoints.extend(object.into_endpoints());
        }
        // A crash may leave a name in two files; the same stands in both.
        endpoints.sort_by_key(Endpoint::key);
        endpoints.dedup_by_key(|endpoint| endpoint.key());
        Ok(endpoint::sets(endpoints).into_iter().map(|set| (set.key(), set)).collect())
    }

    fn change(&self, changes: Changes) -> Result<(), ProviderError> {
        let mut sets = self.sets()?;
        changes.delete.iter().for_each(|set| drop(sets.remove(&set.key())));
        let puts = changes.create.into_iter().chain(changes.update.into_iter().map(|update| update.to));
        puts.for_each(|set| drop(sets.insert(set.key(), set)));
        let objects = self.objects(sets.into_values())?;
        self.write(&objects).map_err(|error| away(&self.folder, &error))
    }

    /// Writes what differs, then takes away what is needed no more.
    fn write(&self, objects: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        for (file, text) in objects {
            let path = self.folder.join(file);
            if fs::read(&path).is_ok_and(|there| there == *text) {
                continue;
            }
            // kubectl ignores the temporary file: its name ends in neither .json nor .yaml.
            fairway_files::replace(&path, text, Readers::Everyone)?;
        }
        for (file, path) in self.files()? {
            if !objects.contains_key(&file) {
                fs::remove_file(path)?;
            }
        }
        fairway_files::sync_folder(&self.folder)
    }

    /// Files of objects of ours, by their names.
    fn files(&self) -> io::Result<BTreeMap<String, PathBuf>> {
        let head = self.head();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries?,
        };
        let mut files = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            let part = file.strip_prefix(&head).and_then(|rest| rest.strip_suffix(TAIL));
            let is_part =
                |part: &str| part == ALL || !part.is_empty() && part.bytes().all(|octet| DIGITS.contains(&octet));
            if part.is_some_and(is_part) {
                files.insert(file, entry.path());
            }
        }
        Ok(files)
    }

    /// The objects of sets, by the names of their files.
    fn objects(
        &self,
        sets: impl Iterator<Item = ProviderRecordSet>,
    ) -> Result<BTreeMap<String, Vec<u8>>, ProviderError> {
        let mut names: BTreeMap<String, Vec<Endpoint>> = BTreeMap::new();
        for set in sets {
            let endpoint = endpoint::endpoint(&set);
            names.entry(endpoint.dns_name.clone()).or_default().push(endpoint);
        }
        let hashed = names.into_iter().map(|(name, endpoints)| {
            let octets = endpoints.to_json().len();
            (hash_of(&name), octets, endpoints)
        });
        let mut parts = BTreeMap::new();
        divide(String::new(), hashed.collect(), &mut parts)?;
        let object = |(part, endpoints): (String, Vec<Endpoint>)| {
            let part = if part.is_empty() { ALL } else { &part };
            let file = format!("{}{part}{TAIL}", self.head());
            let object = Object::new(&self.about(&file), endpoints).to_text();
            (file, object)
        };
        Ok(parts.into_iter().filter(|(_, endpoints)| !endpoints.is_empty()).map(object).collect())
    }

    fn head(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        format!("fairway-{}-", self.name.chars().map(plain).collect::<String>())
    }

    fn about(&self, file: &str) -> About {
        let name = file.strip_suffix(TAIL).unwrap_or(file).to_owned();
        About { name, namespace: self.namespace.clone(), instance: self.name.clone() }
    }
}

/// Parts that fit into an object each; a name is never parted.
fn divide(part: String, names: Vec<Hashed>, parts: &mut BTreeMap<String, Vec<Endpoint>>) -> Result<(), ProviderError> {
    let octets: usize = names.iter().map(|(_, octets, _)| octets).sum();
    if octets <= OBJECT_MAX {
        parts.insert(part, names.into_iter().flat_map(|(_, _, endpoints)| endpoints).collect());
        return Ok(());
    }
    if let [(_, octets, endpoints)] = &names[..] {
        let name = endpoints.first().map_or("", |endpoint| &endpoint.dns_name);
        let what = format!("{name}: its records take {octets} octets, and an object holds {OBJECT_MAX}");
        return Err(ProviderError::Refused(what));
    }
    let mut next: BTreeMap<char, Vec<Hashed>> = BTreeMap::new();
    for hashed in names {
        // Two names with one hash of 64 digits would be a wonder.
        let digit = hashed.0.chars().nth(part.len()).unwrap_or('0');
        next.entry(digit).or_default().push(hashed);
    }
    next.into_iter().try_for_each(|(digit, names)| divide(format!("{part}{digit}"), names, parts))
}

fn hash_of(name: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, name.as_bytes()).as_ref())
}

fn away(path: &Path, what: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::Unavailable(format!("{}: {what}", path.display()))
}

async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ProviderError> + Send + 'static,
) -> Result<T, ProviderError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(ProviderError::Unavailable(error.to_string())))
}

/// The hash of a name, how long its endpoints are, and these.
type Hashed = (String, usize, Vec<Endpoint>);

/// Most octets of the endpoints of an object: etcd takes 1.5 MiB a request, in which an API server writes what it manages, too.
const OBJECT_MAX: usize = 1_000_000;
/// The part that holds all names.
const ALL: &str = "all";
const TAIL: &str = ".json";
const DIGITS: &[u8] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use fairway_model::{RecordSet, Rtype, Ttl};

    use super::*;

    fn folder(path: &Path) -> DnsEndpoints {
        let (name, namespace) = ("Corp_1".to_owned(), "dns".to_owned());
        DnsEndpoints { folder: path.to_owned(), name, namespace, weights: Some(Weights::Aws) }
    }

    fn set(name: &str, records: u16, identifier: &str) -> ProviderRecordSet {
        let rdata = |n: u16| Box::from([&[192, 0][..], &n.to_be_bytes()].concat());
        let set = RecordSet::new(name.parse().unwrap(), Rtype::A, Ttl::STEERED, (0..records).map(rdata));
        let properties = BTreeMap::from([("aws/weight".to_owned(), "7".to_owned())]);
        ProviderRecordSet { set, set_identifier: identifier.to_owned(), properties }
    }

    fn files(path: &Path) -> Vec<String> {
        let mut files: Vec<_> =
            fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        files
    }

    #[tokio::test]
    async fn sets_are_objects_with_our_labels_and_go_when_nothing_is_left() {
        let folder_ = tempfile::tempdir().unwrap();
        let (path, all) = (folder_.path(), folder(folder_.path()));
        fs::write(path.join("fairway-other-all.json"), "somebody else's").unwrap();
        let sets = vec![set("a.x.", 2, "eu"), set("a.x.", 1, "us")];
        all.apply(&Changes { create: sets.clone(), ..Changes::default() }).await.unwrap();
        assert_eq!(all.read().await.unwrap(), sets);
        assert_eq!(files(path), ["fairway-corp-1-all.json", "fairway-other-all.json"]);
        let text = fs::read_to_string(path.join("fairway-corp-1-all.json")).unwrap();
        for part in [
            "externaldns.k8s.io/v1alpha1",
            "\"DNSEndpoint\"",
            "\"app.kubernetes.io/instance\": \"Corp_1\"",
            "\"aws/weight\"",
        ] {
            assert!(text.contains(part), "{text}");
        }
        all.apply(&Changes { delete: sets, ..Changes::default() }).await.unwrap();
        assert_eq!(files(path), ["fairway-other-all.json"]);
    }

    #[tokio::test]
    async fn what_outgrows_an_object_is_divided_and_joined_again() {
        let folder_ = tempfile::tempdir().unwrap();
        let (path, all) = (folder_.path(), folder(folder_.path()));
        let sets: Vec<_> = (0..40).map(|n| set(&format!("n{n}.x."), 5_000, "")).collect();
        all.apply(&Changes { create: sets.clone(), ..Changes::default() }).await.unwrap();
        let parts = files(path);
        assert!(parts.len() > 8 && parts.iter().all(|file| file.len() == "fairway-corp-1-0.json".len()), "{parts:?}");
        for file in &parts {
            let sent = Object::from_json(&fs::read(path.join(file)).unwrap()).unwrap().to_json();
            assert!(sent.len() < 1_100_000, "{file} is too long for etcd");
        }
        let modified = |file: &String| fs::metadata(path.join(file)).unwrap().modified().unwrap();
        let before: Vec<_> = parts.iter().map(modified).collect();
        all.apply(&Changes { delete: vec![sets[3].clone()], ..Changes::default() }).await.unwrap();
        let touched = files(path)
            .into_iter()
            .zip(&parts)
            .zip(before)
            .filter(|((now, was), at)| now == *was && modified(now) != *at);
        assert!(touched.count() <= 1, "one name lies in one file");
        assert_eq!(all.read().await.unwrap().len(), 39);
        all.apply(&Changes { delete: sets[1..].to_vec(), ..Changes::default() }).await.unwrap();
        assert_eq!(files(path), ["fairway-corp-1-all.json"]);
    }

    #[tokio::test]
    async fn a_name_that_no_object_holds_is_refused_and_a_file_that_was_edited_is_an_error() {
        let folder_ = tempfile::tempdir().unwrap();
        let all = folder(folder_.path());
        let large =
            Changes { create: ["eu", "us"].map(|one| set("large.x.", 65_000, one)).into(), ..Changes::default() };
        let error = all.apply(&large).await.unwrap_err();
        assert!(matches!(&error, ProviderError::Refused(why) if why.contains("large.x")), "{error}");
        fs::write(folder_.path().join("fairway-corp-1-all.json"), "{}").unwrap();
        assert!(matches!(all.read().await, Err(ProviderError::Unavailable(why)) if why.contains("take it away")));
    }
}

//! Kubernetes objects (`externaldns.k8s.io/v1alpha1`, DNSEndpoint) as files in a folder. ExternalDNS reads them with `--source=crd`.
//!
//! ```text
//! FOLDER/fairway-NAME-all.json              all names, while they fit into one object
//! FOLDER/fairway-NAME-0.json … -f.json      then a sixteenth each, by the first digit of a hash of the name; and so on
//! ```
//! So a change of one name changes one file. Files are replaced atomically, and obsolete ones are removed last: a name may be in two files
//! for a moment, but never in none. Files without our labels are ignored.
//!
//! Fairway does not write to an API server; `kubectl apply --prune` or a controller that watches the folder does. ExternalDNS keeps the
//! registry of the provider behind it.

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

use self::object_wire::Object;
use crate::{
    Endpoint, Json, endpoint,
    publish::{Limits, Provider, ProviderError, Weights},
    sets::blocking,
};

/// A folder of objects.
#[derive(Clone, Debug)]
pub struct DnsEndpoints {
    /// The folder, which is created if it does not exist.
    pub folder: PathBuf,
    /// Name of the publisher, in the names of objects and their label `app.kubernetes.io/instance`.
    pub name: String,
    /// Their namespace.
    pub namespace: String,
    /// Field for weights of the provider behind ExternalDNS; `None` if it supports no set identifiers.
    pub weights: Option<Weights>,
}

#[async_trait]
impl Provider for DnsEndpoints {
    fn limits(&self) -> Limits {
        let timeout = Duration::from_secs(10);
        Limits {
            batch_max: 100_000,
            is_conditional: false,
            types: Some(endpoint::TYPES),
            weights: self.weights,
            timeout,
        }
    }

    async fn read(&self) -> Result<Vec<ProviderRecordSet>, ProviderError> {
        let all = self.clone();
        blocking(move || Ok(all.sets()?.into_values().collect())).await
    }

    async fn apply(&self, changes: &Changes) -> Result<(), ProviderError> {
        let (all, changes) = (self.clone(), changes.clone());
        blocking(move || all.change(&changes)).await
    }
}

impl DnsEndpoints {
    fn sets(&self) -> Result<BTreeMap<RecordSetKey, ProviderRecordSet>, ProviderError> {
        let mut endpoints = Vec::new();
        for (file, path) in self.files().map_err(|error| error_at(&self.folder, &error))? {
            let object = fs::read(&path).map_err(|error| error_at(&path, &error))?;
            let object = Object::from_json(&object).ok().filter(|object| object.is_of(self, &file));
            let what = "the file was changed by others; remove it, and Fairway writes it again";
            let object = object.ok_or_else(|| error_at(&path, &what))?;
            endpoints.extend(object.into_endpoints());
        }
        // A crash may leave a name in two files, with the same contents.
        endpoints.sort_by_key(Endpoint::key);
        endpoints.dedup_by_key(|endpoint| endpoint.key());
        Ok(endpoint::sets(endpoints).into_iter().map(|set| (set.key(), set)).collect())
    }

    fn change(&self, changes: &Changes) -> Result<(), ProviderError> {
        let mut sets = self.sets()?;
        changes.apply_to(&mut sets);
        let objects = self.objects(sets.into_values())?;
        self.write(&objects).map_err(|error| error_at(&self.folder, &error))
    }

    /// Writes changed files, then removes obsolete ones.
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

    /// Returns the paths of our files, by file name.
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
                |part: &str| part == ALL || !part.is_empty() && part.bytes().all(|byte| DIGITS.contains(&byte));
            if part.is_some_and(is_part) {
                files.insert(file, entry.path());
            }
        }
        Ok(files)
    }

    /// Returns the objects of sets, by file name.
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
            let bytes = endpoints.to_json().len();
            (hash_of(&name), bytes, endpoints)
        });
        let mut parts = BTreeMap::new();
        divide(String::new(), hashed.collect(), &mut parts)?;
        let object = |(part, endpoints): (String, Vec<Endpoint>)| {
            let part = if part.is_empty() { ALL } else { &part };
            let file = format!("{}{part}{TAIL}", self.head());
            let object = Object::new(self, &file, endpoints).to_text();
            (file, object)
        };
        Ok(parts.into_iter().filter(|(_, endpoints)| !endpoints.is_empty()).map(object).collect())
    }

    fn head(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        format!("fairway-{}-", self.name.chars().map(plain).collect::<String>())
    }
}

/// Divides names into parts that fit into one object each. A name is never split.
fn divide(part: String, names: Vec<Hashed>, parts: &mut BTreeMap<String, Vec<Endpoint>>) -> Result<(), ProviderError> {
    let bytes: usize = names.iter().map(|(_, bytes, _)| bytes).sum();
    if bytes <= OBJECT_MAX {
        parts.insert(part, names.into_iter().flat_map(|(_, _, endpoints)| endpoints).collect());
        return Ok(());
    }
    if let [(_, bytes, endpoints)] = &names[..] {
        let name = endpoints.first().map_or("", |endpoint| &endpoint.dns_name);
        let what = format!("{name}: its records take {bytes} bytes, at most {OBJECT_MAX} fit into an object");
        return Err(ProviderError::Refused(what));
    }
    let mut next: BTreeMap<char, Vec<Hashed>> = BTreeMap::new();
    for hashed in names {
        // Hashes have 64 digits, so the parts become small before the digits end.
        let digit = hashed.0.chars().nth(part.len()).unwrap_or('0');
        next.entry(digit).or_default().push(hashed);
    }
    next.into_iter().try_for_each(|(digit, names)| divide(format!("{part}{digit}"), names, parts))
}

fn hash_of(name: &str) -> String {
    HEXLOWER.encode(digest(&SHA256, name.as_bytes()).as_ref())
}

fn error_at(path: &Path, what: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::Unavailable(format!("{}: {what}", path.display()))
}

/// Hash of a name, bytes of its endpoints, endpoints.
type Hashed = (String, usize, Vec<Endpoint>);

/// Maximum number of bytes of the endpoints of an object. etcd accepts requests of 1.5 MiB, which include the managed fields of the API server.
const OBJECT_MAX: usize = 1_000_000;
/// Name of the part with all names.
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
    async fn object_has_our_labels_and_is_removed_when_empty() {
        let folder_ = tempfile::tempdir().unwrap();
        let (path, all) = (folder_.path(), folder(folder_.path()));
        fs::write(path.join("fairway-other-all.json"), "of another program").unwrap();
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
    async fn large_object_is_divided_and_joined_again() {
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
        assert!(touched.count() <= 1, "expected that one name changes one file");
        assert_eq!(all.read().await.unwrap().len(), 39);
        all.apply(&Changes { delete: sets[1..].to_vec(), ..Changes::default() }).await.unwrap();
        assert_eq!(files(path), ["fairway-corp-1-all.json"]);
    }

    #[tokio::test]
    async fn too_large_name_is_rejected_and_edited_file_is_an_error() {
        let folder_ = tempfile::tempdir().unwrap();
        let all = folder(folder_.path());
        let large =
            Changes { create: ["eu", "us"].map(|one| set("large.x.", 65_000, one)).into(), ..Changes::default() };
        let error = all.apply(&large).await.unwrap_err();
        assert!(matches!(&error, ProviderError::Refused(why) if why.contains("large.x")), "{error}");
        fs::write(folder_.path().join("fairway-corp-1-all.json"), "{}").unwrap();
        assert!(matches!(all.read().await, Err(ProviderError::Unavailable(why)) if why.contains("remove it")));
    }
}

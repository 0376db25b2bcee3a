//! Objects as files of a folder. Files are replaced atomically. `kubectl apply --prune` or a controller that watches the folder applies them.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use fairway_files::Readers;
use fairway_model::{Changes, ProviderRecordSet, RecordSetKey};

use super::{Object, Objects};
use crate::{
    publish::{Limits, Provider, ProviderError},
    sets::blocking,
};

/// A folder of objects.
#[derive(Clone, Debug)]
pub struct DnsEndpoints {
    /// The folder, which is created if it does not exist.
    pub folder: PathBuf,
    /// The objects.
    pub objects: Objects,
}

#[async_trait]
impl Provider for DnsEndpoints {
    fn limits(&self) -> Limits {
        self.objects.limits(Duration::from_secs(10))
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
        let mut objects = Vec::new();
        for (name, path) in self.files().map_err(|error| error_at(&self.folder, &error))? {
            let text = fs::read(&path).map_err(|error| error_at(&path, &error))?;
            let object = Object::from_text(&text).filter(|object| object.is_of(&self.objects, &name));
            let what = "the file was changed by others; remove it, and Fairway writes it again";
            objects.push(object.ok_or_else(|| error_at(&path, &what))?);
        }
        Ok(Objects::sets(objects))
    }

    fn change(&self, changes: &Changes) -> Result<(), ProviderError> {
        let mut sets = self.sets()?;
        changes.apply_to(&mut sets);
        let objects = self.objects.render(sets.into_values())?;
        self.write(&objects).map_err(|error| error_at(&self.folder, &error))
    }

    /// Writes changed files, then removes obsolete ones.
    fn write(&self, objects: &BTreeMap<String, Object>) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        for (name, object) in objects {
            let (path, text) = (self.folder.join(format!("{name}{TAIL}")), object.to_text());
            if fs::read(&path).is_ok_and(|there| there == text) {
                continue;
            }
            // kubectl ignores the temporary file: its name ends in neither .json nor .yaml.
            fairway_files::replace(&path, &text, Readers::Everyone)?;
        }
        for (name, path) in self.files()? {
            if !objects.contains_key(&name) {
                fs::remove_file(path)?;
            }
        }
        fairway_files::sync_folder(&self.folder)
    }

    /// Returns the paths of our files, by the names of their objects.
    fn files(&self) -> io::Result<BTreeMap<String, PathBuf>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            entries => entries?,
        };
        let mut files = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            if let Some(name) = file.strip_suffix(TAIL).filter(|name| self.objects.is_name(name)) {
                files.insert(name.to_owned(), entry.path());
            }
        }
        Ok(files)
    }
}

fn error_at(path: &Path, what: &dyn std::fmt::Display) -> ProviderError {
    ProviderError::Unavailable(format!("{}: {what}", path.display()))
}

const TAIL: &str = ".json";

#[cfg(test)]
mod tests {
    use fairway_model::{RecordSet, Rtype, Ttl};

    use super::*;
    use crate::publish::Weights;

    fn folder(path: &Path) -> DnsEndpoints {
        let (name, namespace) = ("Corp_1".to_owned(), "dns".to_owned());
        let weights = Some(Weights::Aws);
        DnsEndpoints { folder: path.to_owned(), objects: Objects { name, namespace, weights } }
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
            let sent = Object::from_text(&fs::read(path.join(file)).unwrap()).unwrap().to_text();
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

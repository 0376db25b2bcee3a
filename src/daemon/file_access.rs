//! Files and folders that a configuration needs, as rules of Landlock.
//!
//! A file that may be replaced has a rule for its folder: a rule of the file would not hold for the new one. So a reload reads what
//! editors, ConfigMaps, cert-manager and certbot put in place of it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use fairway_config::{Destination, ObjectPlace, QueryLogSink, Settings, StoreBackend};
use fairway_model::Cluster;
use fairway_transport::FileAccess;

/// Returns the files that the process needs with these settings, after it has read `files` for them. Paths are canonical.
pub(super) fn needed<'a>(
    settings: &Settings,
    files: impl Iterator<Item = &'a Path>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> FileAccess {
    let mut read: BTreeSet<_> = files.chain(SYSTEM.map(Path::new)).flat_map(places).collect();
    read.extend(store_files(settings).chain(&settings.landlock.read).flat_map(|path| places(path)));
    for anchors in ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().filter_map(environment) {
        read.extend(std::env::split_paths(&anchors).flat_map(|path| places(&path)));
    }
    let mut execute: BTreeSet<_> = settings.landlock.execute.iter().flat_map(|path| places(path)).collect();
    if !execute.is_empty() {
        // Programs that are started have it as their standard input.
        execute.insert(PathBuf::from("/dev/null"));
    }
    FileAccess { read, execute, write: written(settings) }
}

/// Returns the folders that these settings write to and that `access` does not allow.
pub(super) fn unwritable(settings: &Settings, access: &FileAccess) -> Vec<PathBuf> {
    let is_allowed = |folder: &PathBuf| access.write.iter().any(|allowed| folder.starts_with(allowed));
    written(settings).into_iter().filter(|folder| !is_allowed(folder)).collect()
}

fn written(settings: &Settings) -> BTreeSet<PathBuf> {
    let query_log = settings.query_log.as_ref().and_then(|log| match &log.sink {
        QueryLogSink::Stdout => None,
        QueryLogSink::File(path) => Some(path),
    });
    let published = settings.publish.iter().filter_map(|to| match &to.destination {
        Destination::File(path) | Destination::DnsEndpoints { place: ObjectPlace::Folder(path), .. } => Some(path),
        _ => None,
    });
    let all = settings.data_dir.iter().chain(query_log).chain(published).chain(&settings.landlock.write);
    all.filter_map(|path| folder_of(path)).collect()
}

/// Returns the files that lead to the Kubernetes APIs of these clusters: kubeconfigs, and the credentials of a Pod. Files that a kubeconfig
/// names are those of `landlock.read`, unless they are beside it.
pub(super) fn kubernetes_files<'a>(
    clusters: impl Iterator<Item = &'a Cluster>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Vec<PathBuf> {
    let of_environment = || match (environment("KUBECONFIG"), environment("HOME")) {
        (Some(paths), _) => std::env::split_paths(&paths).collect(),
        (None, Some(home)) => vec![Path::new(&home).join(".kube/config")],
        (None, None) => vec![],
    };
    let files = clusters.filter_map(|cluster| cluster.kubernetes.as_ref()).flat_map(|api| match &api.kubeconfig {
        _ if api.in_cluster => vec![PathBuf::from(POD_CREDENTIALS)],
        Some(path) => vec![path.clone()],
        None => of_environment(),
    });
    files.collect()
}

/// Returns the files of the store's etcd, which are read at each new connection.
fn store_files(settings: &Settings) -> impl Iterator<Item = &PathBuf> {
    let etcd = match &settings.store.backend {
        StoreBackend::Embedded => None,
        StoreBackend::Etcd { etcd, .. } => Some(etcd),
    };
    etcd.into_iter().flat_map(|etcd| etcd.files())
}

/// Returns the folders to allow for a path that is read: its own, and for each link on the way that of its target, because links are
/// swapped.
fn places(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..LINKS_MAX {
        let Some((link, target)) = first_link(&path) else { break };
        let below = path.strip_prefix(&link).unwrap_or_else(|_| Path::new("")).to_owned();
        let folder = link.parent().unwrap_or_else(|| Path::new("/")).to_owned();
        let target = folder.join(target);
        // Links in `/`, such as /var/run, are part of the system and not swapped.
        if folder != Path::new("/") {
            found.extend(target.parent().and_then(nearest));
        }
        path = if below.as_os_str().is_empty() { target } else { target.join(below) };
    }
    found.extend(folder_of(&path));
    found
}

/// Returns the folder to allow for a path: itself, or that of a file, or the nearest one above that exists. Of a file directly in `/` it is the
/// file, since `/` would allow everything.
fn folder_of(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).or_else(|_| std::path::absolute(path)).ok()?;
    let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
    folder.and_then(nearest).or_else(|| fs::canonicalize(&path).ok().filter(|path| path != Path::new("/")))
}

/// Returns the first symbolic link of a path from the left, and its target.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut ancestors: Vec<_> = path.ancestors().collect();
    ancestors.reverse();
    ancestors.into_iter().find_map(|part| Some((part.to_owned(), fs::read_link(part).ok()?)))
}

/// Returns the nearest folder that exists, unless it is `/`.
fn nearest(folder: &Path) -> Option<PathBuf> {
    let found = folder.ancestors().find_map(|folder| fs::canonicalize(folder).ok())?;
    Some(found).filter(|found| found != Path::new("/"))
}

/// Credentials of a Pod, which Kubernetes renews.
const POD_CREDENTIALS: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Largest number of links on the way of one path, as in Linux (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Files of the system that libraries read: name look-ups, users, trust anchors, shared libraries and time zones; limits of the control group and figures of
/// the process. All of /etc, because a network manager replaces /etc/resolv.conf, and a rule of that file would not hold for the new one. All of /proc,
/// because the kernel may make the folder of a process anew while it runs.
const SYSTEM: [&str; 9] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/usr",
    "/lib",
    "/lib64",
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
];

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns a scratch folder, and the function that shortens paths in it.
    fn scratch() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        (folder, base)
    }

    #[test]
    fn settings_name_what_is_written_and_files_the_folders_that_are_read() {
        let (_folder, base) = scratch();
        for name in ["etc", "data", "zones", "logs", "objects", "extra"] {
            fs::create_dir(base.join(name)).unwrap();
        }
        fs::write(base.join("etc/fairway.yaml"), "").unwrap();
        let config = format!(
            "version: 1\ndataDir: ../data\nqueryLog: {{ file: ../logs/queries }}\nlandlock: {{ read: [../extra] }}\n\
             zones: [{{ name: a.example, file: ../zones/a }}]\n\
             store: {{ etcd: {{ endpoints: [\"https://127.0.0.1:1\"], ca: {}/ca/ca.pem }} }}\n\
             publish: {{ providers: [{{ name: f, zones: [b.example], file: ../new/zone }} ] }}\n",
            base.display()
        );
        fs::write(base.join("zones/a"), "@ 60 SOA ns1 h 1 2 3 4 5\n@ 60 NS ns1\nns1 60 A 192.0.2.9\n").unwrap();
        fs::write(base.join("etc/fairway.yaml"), config).unwrap();
        let source = fairway_config::Source::Path(base.join("etc/fairway.yaml"));
        let loaded = fairway_config::load(&source, &|_| None).unwrap();
        let access = needed(&loaded.settings, loaded.fingerprint.files(), &|_| None);
        let own = |paths: &BTreeSet<PathBuf>| -> Vec<String> {
            let own = paths.iter().filter_map(|path| path.strip_prefix(&base).ok());
            own.map(|path| path.display().to_string()).collect()
        };
        // The folders of the CA and of the published file do not exist yet: the one above stands for them.
        assert_eq!(own(&access.read), ["", "etc", "extra", "zones"]);
        assert_eq!(own(&access.write), ["", "data", "logs"]);
        assert!(access.read.contains(Path::new("/etc")) && access.read.contains(Path::new("/proc")), "{access:?}");
        assert!(!access.read.contains(Path::new("/")) && !access.write.contains(Path::new("/")), "{access:?}");
        let narrow = FileAccess { write: [base.join("data")].into(), ..FileAccess::default() };
        assert_eq!(unwritable(&loaded.settings, &narrow), [base.clone(), base.join("logs")]);
        assert_eq!(unwritable(&loaded.settings, &access), [] as [PathBuf; 0]);
    }

    #[test]
    fn links_allow_the_folder_of_their_target() {
        let (_folder, base) = scratch();
        for name in ["live", "archive/1", "git/.trees/a"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        // certbot: live/cert.pem leads to a file that is never replaced, and the next one is next to it.
        fs::write(base.join("archive/1/cert1.pem"), "").unwrap();
        symlink("../archive/1/cert1.pem", base.join("live/cert.pem")).unwrap();
        assert_eq!(places(&base.join("live/cert.pem")), [base.join("archive/1"), base.join("archive/1")]);
        // git-sync: the next version has a folder next to that of this one.
        fs::write(base.join("git/.trees/a/fairway.yaml"), "").unwrap();
        symlink(".trees/a", base.join("git/current")).unwrap();
        let found = places(&base.join("git/current/fairway.yaml"));
        assert_eq!(found, [base.join("git/.trees"), base.join("git/.trees/a")]);
        // A link to itself ends.
        symlink("self", base.join("self")).unwrap();
        assert!(places(&base.join("self")).iter().all(|path| *path == base));
    }

    #[test]
    fn root_is_never_allowed() {
        assert_eq!(places(Path::new("/")), [] as [PathBuf; 0]);
        assert_eq!(places(Path::new("/no-such-file")), [] as [PathBuf; 0]);
        assert_eq!(places(Path::new("/proc")), [PathBuf::from("/proc")]);
    }
}

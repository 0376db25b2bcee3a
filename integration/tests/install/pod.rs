//! The Pod of the chart without a container runtime: the files of the image as a read-only root, the chart's arguments, user, kernel
//! settings and volumes, in a network namespace of its own. Needs root.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use fairway_integration::{
    cluster::Cluster,
    image::Image,
    real::{Process, wait_until},
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{LIMIT, dry_run, only, pod_of, run, template};

/// Sets kernel settings ("net.ipv4.x=1 …") and mounts, and becomes the command after these arguments:
/// settings, root, volume at /etc/fairway, volume at /var/lib/fairway.
const SANDBOX: &str = r#"set -e
ip link set lo up
for setting in $1; do echo "${setting#*=}" >"/proc/sys/$(echo "${setting%%=*}" | tr . /)"; done
root=$2
mount --bind "$root" "$root"
mount --bind "$3" "$root/etc/fairway"
mount -o remount,bind,ro "$root/etc/fairway"
mount --bind "$4" "$root/var/lib/fairway"
mount -o remount,bind,ro "$root"
shift 4
exec "$@""#;

/// A Pod of the chart, with the folders that a node would make for it.
struct Pod {
    spec: Value,
    image: Image,
    folder: TempDir,
}

impl Pod {
    /// Prepares the image, the ConfigMap and the data volume of the default values.
    fn new(objects: &[Value]) -> Self {
        let spec = pod_of(only(objects, "Deployment"))["spec"].clone();
        let folder = TempDir::new().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        // The user has to pass through it.
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
        let image = Image::read();
        fs::create_dir(path("root")).expect("the folder can be written");
        image.build(&path("root"));
        fs::create_dir_all(path("root/etc/fairway")).expect("the folder can be written");
        // An emptyDir with fsGroup.
        fs::create_dir(path("data")).expect("the folder can be written");
        let group = spec["securityContext"]["fsGroup"].as_u64().and_then(|id| id.try_into().ok());
        chown(path("data"), Some(0), group).expect("this test runs as root");
        fs::set_permissions(path("data"), PermissionsExt::from_mode(0o2777)).expect("it is ours");
        fs::create_dir(path("config")).expect("the folder can be written");
        let pod = Self { spec, image, folder };
        for (name, at) in [("config", "/etc/fairway"), ("data", "/var/lib/fairway")] {
            let mounts = pod.container()["volumeMounts"].as_array().expect("mounts");
            assert!(mounts.iter().any(|of| of["name"] == name && of["mountPath"] == at), "{mounts:?}");
        }
        pod.write_config(&only(objects, "ConfigMap")["data"]);
        pod
    }

    fn container(&self) -> &Value {
        &self.spec["containers"][0]
    }

    /// Writes the files of the ConfigMap as a kubelet does: into a new folder, which the link `..data` then leads to.
    fn write_config(&self, files: &Value) {
        let folder = self.folder.path().join("config");
        let version = format!("..{}", fs::read_dir(&folder).expect("it is there").count());
        fs::create_dir(folder.join(&version)).expect("the folder can be written");
        for (name, text) in files.as_object().expect("files") {
            fs::write(folder.join(&version).join(name), text.as_str().expect("text"))
                .expect("the folder can be written");
            if !folder.join(name).exists() {
                symlink(Path::new("..data").join(name), folder.join(name)).expect("the folder can be written");
            }
        }
        symlink(&version, folder.join("..next")).expect("the folder can be written");
        fs::rename(folder.join("..next"), folder.join("..data")).expect("the folder can be written");
    }

    /// Starts the container with these kernel settings.
    fn start(&self, settings: &str) -> Process {
        let id = |key: &str| self.spec["securityContext"][key].as_u64().expect("an id");
        let (user, group) = (id("runAsUser"), id("runAsGroup"));
        let args = self.container()["args"].as_array().expect("arguments");
        let path = |name: &str| self.folder.path().join(name);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", SANDBOX, "sh", settings]);
        command.arg(path("root")).arg(path("config")).arg(path("data"));
        command.args(["setpriv", "--no-new-privs", "chroot", &format!("--userspec={user}:{group}")]);
        command.arg(format!("--groups={}", id("fsGroup"))).arg(path("root")).args(&self.image.entrypoint);
        command.args(args.iter().map(|word| word.as_str().expect("text")));
        self.set_environment(&mut command);
        Process::start(&mut command, &path("log"))
    }

    /// Gives a command the variables of the image and of the container.
    fn set_environment(&self, command: &mut Command) {
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(&self.image.environment);
        for variable in self.container()["env"].as_array().expect("variables") {
            command.env(variable["name"].as_str().expect("text"), variable["value"].as_str().expect("text"));
        }
    }

    /// Runs a command in the container, as `kubectl exec` does.
    fn exec(&self, server: &Process, words: &[&str]) -> Result<String, String> {
        let id = |key: &str| self.spec["securityContext"][key].as_u64().expect("an id").to_string();
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--net", "--root", "--wd", "--target", &server.pid().to_string()]);
        command.args(["--setuid", &id("runAsUser"), "--setgid", &id("runAsGroup"), "--"]).args(words);
        self.set_environment(&mut command);
        run(command)
    }

    /// Returns the settings of the Pod.
    fn settings(&self) -> String {
        let settings = self.spec["securityContext"]["sysctls"].as_array().expect("settings");
        let pair =
            |of: &Value| format!("{}={}", of["name"].as_str().expect("text"), of["value"].as_str().expect("text"));
        settings.iter().map(pair).collect::<Vec<_>>().join(" ")
    }

    /// Returns the status of a probe of the kubelet; empty without an answer.
    fn probe(&self, server: &Process, kind: &str) -> String {
        let (get, ports) = (&self.container()[kind]["httpGet"], self.container()["ports"].as_array().expect("ports"));
        let port = ports.iter().find(|port| port["name"] == get["port"]).expect("a port of this name");
        let url = format!("http://127.0.0.1:{}{}", port["containerPort"], get["path"].as_str().expect("a path"));
        inside(server, &["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", &url])
    }
}

/// Returns the output of a program in the network of a server; empty if it fails.
fn inside(server: &Process, command: &[&str]) -> String {
    let mut nsenter = Command::new("nsenter");
    nsenter.args(["--net", "--target", &server.pid().to_string(), "--"]).args(command);
    run(nsenter).unwrap_or_default()
}

/// Returns the addresses of a name, over UDP or `+tcp`.
fn addresses(server: &Process, name: &str, transport: &str) -> Vec<String> {
    let text = inside(server, &["dig", "@127.0.0.1", "+short", "+time=1", "+tries=1", transport, name, "A"]);
    text.lines().map(str::to_owned).collect()
}

fn is_of_the_pool(addresses: &[String]) -> bool {
    !addresses.is_empty() && addresses.iter().all(|of| ["203.0.113.10", "203.0.113.20"].contains(&of.as_str()))
}

#[test]
fn pod_of_the_chart_serves_on_port_53_reloads_its_config_map_and_stops_in_time() {
    let cluster = Cluster::start("eu1");
    cluster.kubectl(&["create", "namespace", "fairway"]);
    let objects = dry_run(&cluster, &template("fairway", &[]).expect("valid")).expect("accepted");
    let pod = Pod::new(&objects);

    // Without the setting, port 53 is not for this user: so it is the setting that gives it.
    let mut refused = pod.start("");
    assert!(!refused.ended(LIMIT).success(), "{}", refused.output());
    assert!(refused.output().contains("permission denied for port 53"), "{}", refused.output());

    let mut server = pod.start(&pod.settings());
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        wait_until(probe, LIMIT, || {
            assert!(server.is_running(), "{}", server.output());
            pod.probe(&server, probe) == "200"
        });
    }
    for transport in ["+notcp", "+tcp"] {
        let answered = addresses(&server, "shop.gslb.example", transport);
        assert!(is_of_the_pool(&answered), "{transport}: {answered:?}");
    }
    assert_eq!(addresses(&server, "pay.gslb.example", "+notcp"), <[String; 0]>::default());
    let mut files = only(&objects, "ConfigMap")["data"].clone();
    let text = files["fairway.yaml"].as_str().expect("text").to_owned();
    files["fairway.yaml"] = format!("{text}  - {{ name: pay.gslb.example, pool: shop }}\n").into();
    pod.write_config(&files);
    wait_until("the new ConfigMap is served", LIMIT, || {
        is_of_the_pool(&addresses(&server, "pay.gslb.example", "+notcp"))
    });

    let status = pod.exec(&server, &[&pod.image.entrypoint[0], "status"]).unwrap_or_else(|error| panic!("{error}"));
    assert!(status.lines().next().is_some_and(|line| line.ends_with(": ready")), "{status}");

    assert!(pod.folder.path().join("data/data/objects.redb").exists(), "{}", server.output());
    let seconds = |value: &Value| value.as_u64().expect("seconds");
    let grace = seconds(&pod.spec["terminationGracePeriodSeconds"])
        - seconds(&pod.container()["lifecycle"]["preStop"]["sleep"]["seconds"]);
    let stopped = Instant::now();
    server.signal("TERM");
    assert!(server.ended(LIMIT).success(), "{}", server.output());
    assert!(stopped.elapsed() < Duration::from_secs(grace), "{:?} of {grace} s", stopped.elapsed());
    assert!(!server.output().contains(r#""level":"ERROR""#), "{}", server.output());
}

//! The steps of `deploy/container/Dockerfile` and the `docker run` of the manual, performed in a folder that becomes the root of the server
//! (chroot), with the files, the user, the rights and the mounts of the container. Needs root.
#![cfg(feature = "real")]

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use fairway_integration::{
    image::Image,
    load::wait_answer,
    real::{Process, fairway_binary, free_port, http_get, root, wait_until},
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

/// The `docker run` of the manual.
#[derive(Debug, Default)]
struct Run {
    /// Files of the operator's folder, and their paths in the container.
    files: Vec<(String, PathBuf)>,
    /// Paths of named volumes in the container.
    volumes: Vec<PathBuf>,
    /// Published ports of the container, as `EXPOSE` has them.
    ports: BTreeSet<String>,
    image: String,
}

impl Run {
    /// Reads the command. Panics on a flag that this test does not perform, and if the manual builds an image of another name.
    fn read(page: &str) -> Self {
        let command = page.lines().find_map(|line| line.strip_prefix("docker run ")).expect("the page has it");
        let (mut run, mut words) = (Self::default(), command.split(' '));
        while let Some(word) = words.next() {
            match word {
                "-v" => run.mount(words.next().expect("a volume")),
                "-p" => run.ports.extend(words.next().and_then(|ports| Some(ports.split_once(':')?.1.to_owned()))),
                flag if flag.starts_with('-') => panic!("{flag} is not performed by this test"),
                image => run.image = image.to_owned(),
            }
        }
        assert!(page.contains(&format!(" -t {} .\n", run.image)), "the page builds no image {:?}", run.image);
        run
    }

    fn mount(&mut self, volume: &str) {
        let mut parts = volume.split(':');
        let (Some(from), Some(to)) = (parts.next(), parts.next()) else { panic!("{volume}: not SOURCE:TARGET") };
        match from.strip_prefix("./") {
            Some(file) => self.files.push((file.to_owned(), to.into())),
            None => self.volumes.push(to.into()),
        }
    }

    /// Performs the mounts below `base`, with the files of `operator`. A new named volume takes content, owner and mode of the image's
    /// folder, so that folder stands for it; one that the image lacks belongs to root.
    fn perform(&self, operator: &Path, base: &Path) {
        let inside = |path: &Path| base.join(path.strip_prefix("/").expect("absolute"));
        for (file, to) in &self.files {
            fs::create_dir_all(inside(to).parent().expect("it is no root")).expect("the folder can be written");
            // With its mode; its owner is root, who also makes the copy.
            fs::copy(operator.join(file), inside(to)).unwrap_or_else(|error| panic!("{file}: {error}"));
        }
        for volume in &self.volumes {
            fs::create_dir_all(inside(volume)).expect("the folder can be written");
        }
    }
}

#[test]
fn image_starts_by_the_commands_of_the_manual() {
    let image = Image::read();
    let folder = TempDir::new().expect("a temporary folder");
    // The user of the image has to pass through it.
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let base = folder.path();
    image.build(base);

    // What an operator mounts: the example, with gateways that are on this machine if anywhere.
    let example = Command::new(fairway_binary()).args(["config", "example"]).output().expect("it runs").stdout;
    let example = String::from_utf8(example).expect("UTF-8").replace("203.0.113.", "127.0.0.");
    let example =
        example.replace("2001:db8:e1::10", "::ffff:127.0.0.10").replace("2001:db8:a1::10", "::ffff:127.0.0.20");
    assert!(!example.contains("2001:db8"), "the example has further addresses: {example}");
    let operator = TempDir::new().expect("a temporary folder");
    fs::write(operator.path().join("fairway.yaml"), example).expect("the folder can be written");
    let run = Run::read(&fs::read_to_string(root().join("docs/deploy/container.md")).expect("it is in the tree"));
    run.perform(operator.path(), base);
    let data_dir = Path::new(&image.environment["FAIRWAY_DATA_DIR"]);
    assert!(run.volumes.iter().any(|volume| data_dir == volume), "{data_dir:?} is no volume: {run:?}");
    assert!(run.ports.is_subset(&image.ports), "the image does not expose {:?}", run.ports);
    assert!(["53/udp", "53/tcp"].iter().all(|port| run.ports.contains(*port)), "DNS is not published: {run:?}");

    let [dns, health] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={}", image.user)).arg(base).args(&image.entrypoint);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").envs(&image.environment);
    // The ports of the image belong to its own network; here they are those of the machine.
    command.env("FAIRWAY_LISTEN_DNS", dns.to_string()).env("FAIRWAY_LISTEN_HEALTH", health.to_string());
    command.env("FAIRWAY_LISTEN_HTTP", "off");
    let mut server = Process::start(&mut command, &folder.path().join("log"));
    wait_until("it is live", LIMIT, || {
        assert!(server.is_running(), "{}", server.output());
        http_get(health, "/livez").is_some_and(|(status, _)| status == 200)
    });
    wait_answer(dns, "ns1.gslb.example", &["192.0.2.53"], LIMIT);
    let data = base.join(image.environment["FAIRWAY_DATA_DIR"].trim_start_matches('/'));
    assert!(data.join("objects.redb").exists(), "the data folder is not writable: {}", server.output());
    server.signal("TERM");
    assert!(server.ended(LIMIT).success(), "{}", server.output());
    assert!(!server.output().contains(r#""level":"ERROR""#), "{}", server.output());
}

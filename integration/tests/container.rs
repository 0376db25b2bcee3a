//! The steps of `deploy/container/Dockerfile` and the `docker run` of README.md, performed in a folder that becomes the root of the server
//! (chroot), with the files, the user, the rights and the mounts of the container. The base image is replaced by the shared libraries of
//! the program. Needs root.
#![cfg(feature = "real")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::SocketAddr,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use fairway_integration::{
    load::wait_answer,
    real::{Process, fairway_binary, free_port, http_get, root, wait_until},
};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

/// A copy from the build stage.
#[derive(Debug)]
struct Copied {
    from: PathBuf,
    /// User and group; root if it has none.
    owner: Option<(u32, u32)>,
    to: PathBuf,
}

/// The last stage of a Dockerfile.
#[derive(Debug, Default)]
struct Image {
    copies: Vec<Copied>,
    environment: BTreeMap<String, String>,
    user: String,
    entrypoint: Vec<String>,
    ports: BTreeSet<String>,
}

/// The `docker run` of README.md.
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
    /// Reads the command. Panics on a flag that this test does not perform, and if README.md builds an image of another name.
    fn read(readme: &str) -> Self {
        let command = readme.lines().find_map(|line| line.strip_prefix("docker run ")).expect("README.md has it");
        let (mut run, mut words) = (Self::default(), command.split(' '));
        while let Some(word) = words.next() {
            match word {
                "-v" => run.mount(words.next().expect("a volume")),
                "-p" => run.ports.extend(words.next().and_then(|ports| Some(ports.split_once(':')?.1.to_owned()))),
                flag if flag.starts_with('-') => panic!("{flag} is not performed by this test"),
                image => run.image = image.to_owned(),
            }
        }
        assert!(readme.contains(&format!(" -t {} .\n", run.image)), "README.md builds no image {:?}", run.image);
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

fn owner(text: &str) -> (u32, u32) {
    let (user, group) = text.split_once(':').expect("USER:GROUP");
    (user.parse().expect("a number"), group.parse().expect("a number"))
}

impl Image {
    /// Reads the last stage. Panics on an instruction that this test does not perform.
    fn read(dockerfile: &str) -> Self {
        let (_, stage) = dockerfile.rsplit_once("\nFROM ").expect("two stages");
        let mut image = Self::default();
        for line in stage.lines().skip(1).filter(|line| !line.is_empty()) {
            let (instruction, rest) = line.split_once(' ').expect("an instruction with arguments");
            match instruction {
                "COPY" => image.copy(rest),
                "ENV" => image.environment.extend(rest.split(' ').map(|pair| {
                    let (name, value) = pair.split_once('=').expect("NAME=VALUE");
                    (name.to_owned(), value.to_owned())
                })),
                "USER" => image.user = rest.to_owned(),
                "ENTRYPOINT" => image.entrypoint = serde_json::from_str(rest).expect("a JSON array"),
                "EXPOSE" => image.ports.extend(rest.split(' ').map(str::to_owned)),
                // It changes no file and no right.
                "VOLUME" => {}
                other => panic!("{other} is not performed by this test"),
            }
        }
        image
    }

    fn copy(&mut self, rest: &str) {
        let (flags, paths): (Vec<_>, Vec<_>) = rest.split(' ').partition(|word| word.starts_with("--"));
        let owner = flags.iter().find_map(|flag| flag.strip_prefix("--chown=")).map(owner);
        let [from, to] = paths[..] else { panic!("{rest}: not one source and one destination") };
        self.copies.push(Copied { from: from.into(), owner, to: to.into() });
    }

    /// Performs the copies below `base`, as Docker does: root owns what has no `--chown`, and parents are created with mode 0755.
    fn build(&self, base: &Path) {
        for Copied { from, owner, to } in &self.copies {
            let to = base.join(to.strip_prefix("/").expect("absolute"));
            fs::create_dir_all(to.parent().expect("it is no root")).expect("the folder can be written");
            match from.to_str().expect("UTF-8") {
                "/src/target/dist/fairway" => fs::copy(fairway_binary(), &to).map(drop),
                "/image/data" => {
                    fs::create_dir(&to).and_then(|()| fs::set_permissions(&to, PermissionsExt::from_mode(0o700)))
                }
                path => fs::copy(path, &to).map(drop),
            }
            .unwrap_or_else(|error| panic!("{}: {error}", from.display()));
            let (user, group) = owner.unwrap_or((0, 0));
            chown(&to, Some(user), Some(group)).expect("this test runs as root");
        }
    }
}

/// Copies the shared libraries of the program: all that it needs of the base image.
fn base_image(base: &Path) {
    let output = Command::new("ldd").arg(fairway_binary()).output().expect("ldd is part of libc-bin");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = base.join(&library[1..]);
        fs::create_dir_all(to.parent().expect("it is no root")).expect("the folder can be written");
        fs::copy(library, to).unwrap_or_else(|error| panic!("{library}: {error}"));
    }
}

#[test]
fn image_starts_by_the_commands_of_the_readme() {
    let dockerfile = fs::read_to_string(root().join("deploy/container/Dockerfile")).expect("it is in the tree");
    let image = Image::read(&dockerfile);
    let folder = TempDir::new().expect("a temporary folder");
    // The user of the image has to pass through it.
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let base = folder.path();
    base_image(base);
    image.build(base);

    // What an operator mounts: the example, with gateways that are on this machine if anywhere.
    let example = Command::new(fairway_binary()).args(["config", "example"]).output().expect("it runs").stdout;
    let example = String::from_utf8(example).expect("UTF-8").replace("203.0.113.", "127.0.0.");
    let example =
        example.replace("2001:db8:e1::10", "::ffff:127.0.0.10").replace("2001:db8:a1::10", "::ffff:127.0.0.20");
    assert!(!example.contains("2001:db8"), "the example has further addresses: {example}");
    let operator = TempDir::new().expect("a temporary folder");
    fs::write(operator.path().join("fairway.yaml"), example).expect("the folder can be written");
    let run = Run::read(&fs::read_to_string(root().join("README.md")).expect("it is in the tree"));
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

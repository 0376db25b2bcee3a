//! The image of `deploy/container/Dockerfile`, built in a folder: what the last stage copies, with owners and modes. The base image is
//! replaced by the shared libraries of the program. Needs root.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use crate::real::{fairway_binary, root};

/// The last stage of a Dockerfile.
#[derive(Debug, Default)]
pub struct Image {
    copies: Vec<Copied>,
    /// Variables of `ENV`.
    pub environment: BTreeMap<String, String>,
    /// `USER`, as `USER:GROUP`.
    pub user: String,
    /// Words of `ENTRYPOINT`.
    pub entrypoint: Vec<String>,
    /// Ports of `EXPOSE`.
    pub ports: BTreeSet<String>,
}

impl Image {
    /// Reads the last stage of the Dockerfile in the tree. Panics on an instruction that [`Self::build`] does not perform.
    pub fn read() -> Self {
        let dockerfile = fs::read_to_string(root().join("deploy/container/Dockerfile")).expect("it is in the tree");
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
                other => panic!("{other} is not performed"),
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

    /// Copies the shared libraries below `base` and performs the copies there, as Docker does: root owns what has no `--chown`, and parents
    /// are created with mode 0755.
    pub fn build(&self, base: &Path) {
        base_image(base);
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
            chown(&to, Some(user), Some(group)).expect("tests of the image run as root");
        }
    }
}

/// A copy from the build stage.
#[derive(Debug)]
struct Copied {
    from: PathBuf,
    /// User and group; root if it has none.
    owner: Option<(u32, u32)>,
    to: PathBuf,
}

fn owner(text: &str) -> (u32, u32) {
    let (user, group) = text.split_once(':').expect("USER:GROUP");
    (user.parse().expect("a number"), group.parse().expect("a number"))
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

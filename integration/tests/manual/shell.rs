//! The shell in which the commands of a page run: bash, as user 1000, with `/tmp`, loopback and processes of its own. All of them end with it.

use std::{
    io::{Read, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use fairway_integration::real::{fairway_binary, parts, root};

/// Longest time of a command. Starting two Kubernetes APIs takes half a minute.
const LIMIT: Duration = Duration::from_secs(180);

/// Arguments: the repository, the folder of the program, the folder of built parts. A clone below /tmp stays visible, since both are mounted elsewhere first.
/// A reader of the
/// manual is in the folder of the repository; here, what the commands write must not be there. The server would warn of the variable.
const SANDBOX: &str = r#"set -e
ip link set lo up
mount --bind "$1" /mnt
mount --bind "$2" /srv
mount -t tmpfs none /tmp
mkdir /tmp/page
cd /tmp/page
ln -s /mnt/deploy /mnt/docs .
mkdir integration
printf '#!/bin/sh\nFAIRWAY_PARTS=%s exec /mnt/integration/two-clusters "$@"\n' "$3" >integration/two-clusters
chmod +x integration/two-clusters
exec unshare --user --map-user=1000 --map-group=1000 bash --noprofile --norc"#;

/// Encloses the exit status after the output of a command: a byte that no command prints.
const MARK: char = '\u{1e}';

/// A running shell.
pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    output: Receiver<Vec<u8>>,
}

/// Exit status and output of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: i32,
    /// Standard output and error, in the order in which they were written.
    pub(crate) output: String,
}

impl Shell {
    pub(crate) fn start() -> Self {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]);
        command.args(["bash", "-c", SANDBOX, "bash"]).arg(root());
        command.arg(fairway_binary().parent().expect("it lies in a folder")).arg(parts());
        let path = format!("/srv:{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", parts().join("bin").display());
        command.env_clear().env("PATH", path).env("HOME", "/tmp/page").env("LANG", "C.UTF-8");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("unshare is there");
        let input = child.stdin.take().expect("it is piped");
        let mut pipe = child.stdout.take().expect("it is piped");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4_096];
            while let Ok(length) = pipe.read(&mut piece)
                && length > 0
                && sender.send(piece[..length].to_vec()).is_ok()
            {}
        });
        Self { child, input, output }
    }

    /// Runs a command to its end. Panics after [`LIMIT`], and if the shell ends.
    pub(crate) fn run(&mut self, command: &str) -> Outcome {
        let script = format!("{{ {command}\n}} </dev/null 2>&1\nprintf '\\036%s\\036' $?\n");
        self.input.write_all(script.as_bytes()).expect("the shell reads commands");
        let end = Instant::now() + LIMIT;
        let mut output = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&output);
            if let Some((text, status)) = text.strip_suffix(MARK).and_then(|text| text.rsplit_once(MARK)) {
                return Outcome { status: status.parse().expect("a number"), output: text.to_owned() };
            }
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(piece) => output.extend(piece),
                Err(RecvTimeoutError::Timeout) => panic!("no end within {LIMIT:?}: {command}\n{text}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the shell ended: {command}\n{text}"),
            }
        }
    }

    /// Starts a command in the background; its output goes to a file, as to another terminal.
    pub(crate) fn start_in_background(&mut self, command: &str, log: &str) {
        let outcome = self.run(&format!("{command} >{log} 2>&1 &"));
        assert_eq!(outcome.output, "", "{command}");
    }

    /// Writes a file in the folder of the page.
    pub(crate) fn write(&mut self, name: &str, text: &str) {
        let quoted = text.replace('\'', r"'\''");
        let outcome = self.run(&format!("mkdir -p \"$(dirname {name})\" && printf %s '{quoted}' >{name}"));
        assert_eq!((outcome.status, &*outcome.output), (0, ""), "{name}");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With the first process of their namespace, all processes end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

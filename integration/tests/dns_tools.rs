//! The tools of operators (dig, kdig and drill) get correct answers from the running server: over UDP and TCP, IPv4 and IPv6.
//!
//! The recipes cover messages that no tool sends.
#![cfg(feature = "real")]

use std::{
    net::{Ipv6Addr, SocketAddr, UdpSocket},
    process::Command,
    time::Duration,
};

use fairway_integration::real::{Fairway, Process, fairway_binary, free_port, http_get, program, wait_until};

/// The configuration without the listeners.
const CONFIG: &str = "
identity: { id: ns1.eu }
zones: [ { name: gslb.example, file: gslb.example.zone } ]
clusters: [ { name: eu1, addresses: [203.0.113.10] }, { name: us1, addresses: [203.0.113.20] } ]
monitors: [ { name: none, type: always } ]
pools:
  - name: shop
    policy: weighted
    monitor: none
    members: [ { cluster: eu1, weight: 3 }, { cluster: us1, weight: 1 } ]
names: [ { name: shop.gslb.example, pool: shop } ]
";

/// Strings at `big`, 208 octets each with their length: more than any UDP answer holds.
const BIG: usize = 20;

const SOA: &str = "gslb.example. 60 IN SOA ns1.gslb.example. hostmaster.gslb.example. 7 3600 900 604800 60";

const TOOLS: [&str; 3] = ["dig", "kdig", "drill"];

fn zone() -> String {
    let mut text = "$TTL 300\n@ SOA ns1 hostmaster 7 3600 900 604800 60\n@ NS ns1\n@ MX 10 mail\nns1 A 192.0.2.53\n\
        mail A 192.0.2.25\nwww A 192.0.2.1\nwww TXT \"hello; world\"\n"
        .to_owned();
    for number in 0..BIG {
        text += &format!("big TXT \"{number:02} {}\"\n", "x".repeat(204));
    }
    text
}

fn server() -> Fairway {
    Fairway::start(CONFIG, &[("gslb.example.zone", &zone())])
}

/// Arguments of each tool. All ask without recursion, which this server does not offer.
#[derive(Clone, Copy)]
struct Way<'a> {
    tool: &'a str,
    server: SocketAddr,
    tcp: bool,
}

impl Way<'_> {
    /// Returns its output, with each run of blanks and tabs replaced by one blank.
    fn ask(self, name: &str, rtype: &str, further: &[&str]) -> String {
        let mut command = Command::new(program(self.tool, self.tool));
        command.args([&format!("@{}", self.server.ip()), "-p", &self.server.port().to_string()]);
        match (self.tool, self.tcp) {
            ("drill", tcp) => command.args(["-o", "rd"]).args(tcp.then_some("-t")),
            ("dig", tcp) => command.args(["+norec", "+time=5", "+tries=3"]).args(tcp.then_some("+tcp")),
            (_, tcp) => command.args(["+norec", "+time=5", "+retry=3"]).args(tcp.then_some("+tcp")),
        };
        let output = command.args(further).arg(name).args(rtype.split(' ')).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect()
    }

    /// Sends a query, and fails unless the output has each part.
    fn expect(self, name: &str, rtype: &str, further: &[&str], parts: &[&str]) {
        let output = self.ask(name, rtype, further);
        for part in parts {
            assert!(output.contains(part), "{} tcp={}: {part:?} is not in\n{output}", self.tool, self.tcp);
        }
    }

    fn expect_static_answers(self) {
        let found = |record| ["NOERROR", "qr aa", record];
        self.expect("www.gslb.example", "A", &[], &found("\nwww.gslb.example. 300 IN A 192.0.2.1\n"));
        self.expect("www.gslb.example", "TXT", &[], &found("\nwww.gslb.example. 300 IN TXT \"hello; world\"\n"));
        self.expect("gslb.example", "MX", &[], &found("\ngslb.example. 300 IN MX 10 mail.gslb.example.\n"));
        self.expect("gslb.example", "SOA", &[], &found("\ngslb.example. 300 IN SOA ns1.gslb.example. "));
        self.expect("WWW.gslb.EXAMPLE", "A", &[], &["NOERROR", "300 IN A 192.0.2.1\n"]);
        self.expect("none.gslb.example", "A", &[], &["NXDOMAIN", "qr aa", &format!("\n{SOA}\n")]);
        self.expect("www.gslb.example", "AAAA", &[], &["NOERROR", "qr aa", &format!("\n{SOA}\n")]);
        self.expect("www.elsewhere.example", "A", &[], &["REFUSED"]);
    }
}

#[test]
fn static_names_are_answered_to_every_tool_over_udp_and_tcp() {
    let fairway = server();
    for tool in TOOLS {
        for tcp in [false, true] {
            Way { tool, server: fairway.dns, tcp }.expect_static_answers();
        }
    }
}

#[test]
fn tools_get_the_same_answers_over_ipv6() {
    if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("this machine has no ::1");
        return;
    }
    let folder = tempfile::TempDir::new().expect("a temporary folder");
    let [dns, http] = [free_port(), free_port()];
    let config = format!("version: 1\nlisten: {{ dns: [\"[::1]:{dns}\"], http: \"127.0.0.1:{http}\" }}\n{CONFIG}");
    std::fs::write(folder.path().join("fairway.yaml"), config).expect("the folder can be written");
    std::fs::write(folder.path().join("gslb.example.zone"), zone()).expect("the folder can be written");
    let mut command = Command::new(fairway_binary());
    command.arg("serve").arg("--config").arg(folder.path().join("fairway.yaml"));
    command.arg("--data-dir").arg(folder.path().join("data"));
    let process = Process::start(&mut command, &folder.path().join("log"));
    let ready =
        || http_get(SocketAddr::from(([127, 0, 0, 1], http)), "/readyz").is_some_and(|(status, _)| status == 200);
    wait_until("the server is ready", Duration::from_secs(30), ready);
    for tool in TOOLS {
        for tcp in [false, true] {
            Way { tool, server: SocketAddr::from((Ipv6Addr::LOCALHOST, dns)), tcp }.expect_static_answers();
        }
    }
    drop(process);
}

#[test]
fn large_answer_is_truncated_over_udp_and_complete_over_tcp() {
    let fairway = server();
    let last = format!("\nbig.gslb.example. 300 IN TXT \"{:02} x", BIG - 1);
    for tool in TOOLS {
        let way = Way { tool, server: fairway.dns, tcp: false };
        let keep = if tool == "drill" { &[][..] } else { &["+ignore"] };
        let cut = way.ask("big.gslb.example", "TXT", keep);
        assert!(cut.contains("qr aa tc") && !cut.contains(&last), "{tool}: {cut}");
        // drill retries over TCP only with an option.
        let whole = way.ask("big.gslb.example", "TXT", if tool == "drill" { &["-a"] } else { &[] });
        assert!(!whole.contains("qr aa tc"), "{tool}: {whole}");
        assert_eq!(whole.matches("\nbig.gslb.example. 300 IN TXT ").count(), BIG, "{tool}: {whole}");
    }
}

#[test]
fn steered_answer_has_the_ecs_scope() {
    let fairway = server();
    for tool in ["dig", "kdig"] {
        for tcp in [false, true] {
            let way = Way { tool, server: fairway.dns, tcp };
            let parts =
                ["CLIENT-SUBNET: 198.51.100.0/24/24", "NOERROR", "qr aa", "shop.gslb.example. 30 IN A 203.0.113."];
            way.expect("shop.gslb.example", "A", &["+subnet=198.51.100.0/24"], &parts);
            way.expect("shop.gslb.example", "A", &["+subnet=198.51.100.7/32"], &["CLIENT-SUBNET: 198.51.100.7/32/24"]);
            way.expect("www.gslb.example", "A", &["+subnet=198.51.100.0/24"], &["CLIENT-SUBNET: 198.51.100.0/24/0"]);
        }
    }
    let way = Way { tool: "drill", server: fairway.dns, tcp: false };
    way.expect("shop.gslb.example", "A", &[], &["NOERROR", "shop.gslb.example. 30 IN A 203.0.113."]);
}

#[test]
fn client_networks_follow_the_weights_and_keep_their_cluster() {
    let fairway = server();
    let ask = || {
        let mut dig = Command::new(program("dig", "dig"));
        dig.args(["@127.0.0.1", "-p", &fairway.dns.port().to_string(), "+short", "+norec"]);
        for network in 0..100 {
            dig.args(["shop.gslb.example", "A", &format!("+subnet=198.51.{network}.0/24")]);
        }
        String::from_utf8(dig.output().expect("dig runs").stdout).expect("addresses are ASCII")
    };
    let first = ask();
    let [eu1, us1] = ["203.0.113.10", "203.0.113.20"].map(|a| first.lines().filter(|line| *line == a).count());
    assert_eq!(eu1 + us1, 100, "{first}");
    // 75 are expected, give or take 4 standard deviations of sqrt(100 * 0.75 * 0.25) = 4.3.
    assert!((58..=92).contains(&eu1), "{eu1} of 100");
    assert_eq!(ask(), first);
}

#[test]
fn server_returns_its_configured_id_and_never_its_version() {
    let fairway = server();
    for tool in TOOLS {
        let way = Way { tool, server: fairway.dns, tcp: false };
        way.expect("version.bind", "CH TXT", &[], &["REFUSED"]);
        way.expect("id.server", "CH TXT", &[], &["NOERROR", "TXT \"ns1.eu\""]);
        if tool != "drill" {
            way.expect("www.gslb.example", "A", &["+nsid"], &["NSID: ", "\"ns1.eu\""]);
        }
    }
}

//! Every command and flag, and what the manual says of them. Help, manual pages and completions are all made from here.
//!
//! Only definitions: what a command does is in the file that carries its name.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use fairway_model::{ClusterName, Name, Network, Rtype};

use super::{
    contributions_args::ContributionsArgs,
    objects_args::{ApplyArgs, DeleteArgs, DiffArgs, GetArgs},
    output::ColorWhen,
    publish::PublishCommand,
    server_args::{ServerArgs, TokenCommand},
    values,
};

/// Authoritative DNS server whose answers follow the health of clusters.
///
/// Fairway answers names with the addresses of the clusters that can take the traffic: it probes their ingress gateways,
/// and shares clients among those that are up, by weight or in order of preference.
///
/// New here? `fairway demo` shows it at work on this machine in a few seconds.
#[derive(Debug, Parser)]
#[command(name = "fairway", version, max_term_width = 100, after_long_help = AFTER_HELP)]
#[command(disable_help_subcommand = true, subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Cli {
    /// When to colour the output: always, never, or auto, which is on a terminal unless NO_COLOR is set or TERM is dumb.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, display_order = 900)]
    #[arg(hide_possible_values = true)]
    pub(super) color: ColorWhen,

    /// What to do.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// What stands below the long help and in the manual.
const AFTER_HELP: &str = "\
Exit status:
  0  done; `check`: no error (there may be warnings)
  1  it failed: a fault in files, no running server, a port in use; the reason is on standard error
  2  the command line itself is wrong
  3  `check --impact --against`: rules are broken, all of them as before
  4  `diff`: something would change

Environment (a flag wins over it, and it wins over the configuration file):
  FAIRWAY_CONFIG       configuration file or folder of serve and check
  FAIRWAY_DATA_DIR     data folder
  FAIRWAY_LISTEN_DNS   addresses that answer DNS, with commas between
  FAIRWAY_LISTEN_HTTP  address of the HTTP listener, or off
  FAIRWAY_LOG          what is logged
  FAIRWAY_USER         user to become once sockets are bound
  FAIRWAY_TOKEN        token that is shown to a server that is reached by a URL
  FAIRWAY_URL          server that is asked, in place of --server
  FAIRWAY_ENVOY        Envoy binary of demo --envoy
  NO_COLOR             not empty: no colours";

/// What to do. Commands are described at their arguments, once.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a comment here would take the place of the longer one at the arguments")]
pub(super) enum Command {
    Serve(ServeArgs),
    Check(CheckArgs),
    Explain(ExplainArgs),
    Replay(ReplayArgs),
    Status(StatusArgs),
    #[command(subcommand)]
    Override(OverrideCommand),
    #[command(subcommand)]
    Publish(PublishCommand),
    Reload(ReloadArgs),
    Apply(ApplyArgs),
    Diff(DiffArgs),
    Get(GetArgs),
    Delete(DeleteArgs),
    Contributions(ContributionsArgs),
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(subcommand)]
    Store(StoreCommand),
    #[command(subcommand)]
    Token(TokenCommand),
    Simulate(SimulateArgs),
    Demo(DemoArgs),
    Version(VersionArgs),
    Completions(CompletionsArgs),
    Manual(ManualArgs),
}

/// Run the name server.
///
/// With --config: health checks, steered names, HTTP listener, reload on SIGHUP and when files change. With --listen and --zone
/// instead: static zones only; nothing is kept on disk and no HTTP listener is opened.
///
/// SIGTERM and SIGINT drain: queries that were accepted are answered, then the process ends.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway serve --config /etc/fairway/fairway.yaml
  fairway serve --listen 127.0.0.1:5300 --zone example.org=example.org.zone
  dig @127.0.0.1 -p 5300 example.org SOA")]
pub(super) struct ServeArgs {
    /// Configuration file, or a folder whose *.yaml files are read together. Environment: FAIRWAY_CONFIG.
    // Variables are read in code: clap would count them as given, and then refuse them beside flags they do not go with.
    #[arg(long, short, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) config: Option<PathBuf>,

    /// Folder for what must survive a restart; made with mode 0700 if missing, and locked.
    ///
    /// Default: `dataDir` of the configuration, else STATE_DIRECTORY (set by systemd), else /var/lib/fairway for root, else
    /// $XDG_STATE_HOME/fairway or ~/.local/state/fairway. Environment: FAIRWAY_DATA_DIR.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) data_dir: Option<PathBuf>,

    /// Take over from the process that runs on the same data folder without losing a query.
    ///
    /// Its sockets are handed over with what is queued in them, then it drains and ends. Without a running process this is a
    /// plain start.
    #[arg(long)]
    pub(super) replace: bool,

    /// Address and port to answer DNS on, UDP and TCP; may be repeated. Only without --config.
    #[arg(long, value_name = "ADDR:PORT", requires = "zone", conflicts_with_all = ["config", "data_dir", "replace"])]
    pub(super) listen: Vec<SocketAddr>,

    /// Zone to serve and its file in the format of RFC 1035; may be repeated. Only without --config.
    #[arg(long, value_name = "NAME=FILE", value_parser = values::zone_file, requires = "listen")]
    #[arg(conflicts_with = "config", value_hint = ValueHint::FilePath)]
    pub(super) zone: Vec<(Name, PathBuf)>,

    /// What to log: a level (error, warn, info, debug, trace) or directives like `info,fairway_health=debug`.
    ///
    /// Default: `log` of the configuration, else `info`. Lines are for people on a terminal, else one JSON object each.
    /// Environment: FAIRWAY_LOG.
    #[arg(long, value_name = "FILTER")]
    pub(super) log: Option<String>,
}

/// Check configuration and zone files; show every fault at once.
///
/// Each fault is one line on standard output, `file:line:column: what and why; way out`, warnings marked as such; then one line
/// sums up. Nothing is started and nothing is probed. Exit status 0 without errors (warnings are allowed), else 1.
///
/// With --impact it judges what a sound configuration leaves when something fails: whether each client network keeps a live
/// cluster when any one is down, who carries its clients then, members that nobody is ever given, and TTLs.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway check /etc/fairway/fairway.yaml
  fairway check --zone example.org=example.org.zone
  fairway check new.yaml --impact --against /etc/fairway/fairway.yaml --offered 60 --drain-budget 60s")]
pub(super) struct CheckArgs {
    /// Configuration file, or a folder whose *.yaml files are read together. Environment: FAIRWAY_CONFIG.
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) config: Option<PathBuf>,

    /// Zone to check and its file, without any configuration; may be repeated.
    #[arg(long, value_name = "NAME=FILE", value_parser = values::zone_file, conflicts_with = "config")]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) zone: Vec<(Name, PathBuf)>,

    /// Treat warnings as errors: exit status 1 if there is any.
    #[arg(long)]
    pub(super) strict: bool,

    /// Print only the faults, no closing line.
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// What it leaves when something fails.
    #[command(flatten)]
    pub(super) impact: ImpactArgs,
}

/// What `check --impact` takes.
#[derive(Debug, Args)]
pub(super) struct ImpactArgs {
    /// Judge what the configuration leaves when something fails, and what it changes.
    #[arg(long, conflicts_with_all = ["zone", "quiet"])]
    pub(super) impact: bool,

    /// The configuration to compare with: shows what moves, and what was broken before. Exit status 3 if nothing is worse.
    #[arg(long, value_name = "FILE|DIR", requires = "impact", value_hint = ValueHint::AnyPath)]
    pub(super) against: Option<PathBuf>,

    /// What each cluster in use carries while all are up, in percent of its capacity: with any one down nobody may be over 100.
    ///
    /// Every cluster must declare its capacity. Without it only the most that holds is shown.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, requires = "impact")]
    pub(super) offered: Option<f64>,

    /// Longest that caches may keep the answers of a cluster that is drained: no TTL of a steered name may be longer.
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "impact")]
    pub(super) drain_budget: Option<Duration>,

    /// Print the report as JSON.
    #[arg(long, requires = "impact")]
    pub(super) json: bool,
}

/// Tell why a name is answered the way it is.
///
/// Shows the zone, the node, the policy, every member with the reason why it is in or out, where the TTL comes from, and the
/// answer. Asks the running server. With --config no server is needed: the files alone are used, nothing is probed, and every
/// target is assumed up but those of clusters named by --down.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway explain shop.gslb.example
  fairway explain shop.gslb.example --type AAAA --client 203.0.113.0/24
  fairway explain shop.gslb.example --config fairway.yaml --down eu1")]
pub(super) struct ExplainArgs {
    /// Name to explain, absolute with or without its final dot.
    #[arg(value_name = "NAME", value_parser = values::name)]
    pub(super) name: Name,

    /// Record type that is asked for: a mnemonic like AAAA, or TYPE65280.
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = "A")]
    pub(super) rtype: Rtype,

    /// Network of the client, as an ECS option would carry it, or one address; default 127.0.0.1.
    #[arg(long, short, value_name = "SUBNET", value_parser = values::client_network)]
    pub(super) client: Option<Network>,

    /// Explain from these files alone, without a running server.
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["data_dir", "server"], value_hint = ValueHint::AnyPath)]
    pub(super) config: Option<PathBuf>,

    /// Play that every target of this cluster is down; may be repeated. Needs --config.
    #[arg(long, value_name = "CLUSTER", value_parser = values::cluster, requires = "config")]
    pub(super) down: Vec<ClusterName>,

    /// Which running server to ask.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Print the explanation as JSON, the same body as `GET /v1/explain`.
    #[arg(long)]
    pub(super) json: bool,
}

/// Tell what a changed configuration would do to recorded queries.
///
/// Plays the lines of a query log (`queryLog` of the configuration) against it, by the code that answers: shares of each cluster,
/// and what moves compared with the configuration before. Nothing is probed and nothing is applied: every target is assumed up
/// but those of clusters named by --down.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway replay --log query.log --from /etc/fairway/fairway.yaml --against new.yaml
  fairway replay --log query.log --against fairway.yaml --down eu1 --offered 60")]
pub(super) struct ReplayArgs {
    /// The query log; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) log: PathBuf,

    /// The configuration that is to come: a file, or a folder whose *.yaml files are read together.
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) against: PathBuf,

    /// The configuration to compare with.
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) from: Option<PathBuf>,

    /// Play that every target of this cluster is down; may be repeated.
    #[arg(long, value_name = "CLUSTER", value_parser = values::cluster)]
    pub(super) down: Vec<ClusterName>,

    /// How much is asked for, in percent of the capacity of all clusters of the pools that answer: shows each one's load.
    ///
    /// Every cluster must declare its capacity. What --down takes out goes on counting: this is how N-1 is looked at.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(super) offered: Option<f64>,

    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Keep what was declared over the API: copy it, put it back, check it, see who changed it.
///
/// Reads the data folder itself. A server may be running, except for `restore`.
#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy the store into a new file, also while a server runs.
    ///
    /// The copy is of one moment, is checked, and is on disk when the command ends. A file that is there is left alone.
    #[command(after_long_help = "\
Examples:
  fairway store backup /var/backups/fairway-$(date +%F).redb")]
    Backup(StoreFileArgs),
    /// Show what was done to an object: when, by whom, why.
    #[command(after_long_help = "\
Examples:
  fairway store history pool/shop
  fairway store history pool/shop --revision 1207 > shop.json")]
    History(StoreHistoryArgs),
    /// Put a backup in the place of the store. No server may run on the folder.
    ///
    /// The backup is checked first. The store that was there stays beside it as `objects.redb.replaced`. Revisions go on above
    /// those of both, so that none that was seen once comes to mean something else.
    Restore(StoreFileArgs),
    /// Read everything and say whether it is in order: the store of a data folder, or a backup.
    ///
    /// Without a running server the file's pages are checked too, and a file that was left in disorder by a crash is mended,
    /// which the next start would do.
    Verify(StoreVerifyArgs),
}

/// What `store backup` and `store restore` take.
#[derive(Debug, Args)]
pub(super) struct StoreFileArgs {
    /// The backup.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,

    /// Whose store.
    #[command(flatten)]
    pub(super) folder: StoreFolderArgs,
}

/// What `store history` takes.
#[derive(Debug, Args)]
pub(super) struct StoreHistoryArgs {
    /// The object: KIND/NAME or KIND/NAME/NAME/..., as in pool/shop.
    #[arg(value_name = "KEY")]
    pub(super) key: String,

    /// Print what the object said from this revision on, octet for octet, instead of the list.
    #[arg(long, value_name = "N")]
    pub(super) revision: Option<u64>,

    /// Whose store.
    #[command(flatten)]
    pub(super) folder: StoreFolderArgs,
}

/// What `store verify` takes.
#[derive(Debug, Args)]
pub(super) struct StoreVerifyArgs {
    /// A backup, instead of the store of the data folder.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "data_dir")]
    pub(super) file: Option<PathBuf>,

    /// Whose store.
    #[command(flatten)]
    pub(super) folder: StoreFolderArgs,
}

/// Whose store is meant.
#[derive(Clone, Debug, Args)]
pub(super) struct StoreFolderArgs {
    /// Data folder of the server; default as for `serve`. Environment: FAIRWAY_DATA_DIR.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) data_dir: Option<PathBuf>,
}

/// Show what a running server is doing.
///
/// Listeners, zones, pools with the health of every member, targets with the cause of their state, overrides, last reload.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Which running server to ask.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Print the state as JSON, the same body as `GET /v1/state`.
    #[arg(long)]
    pub(super) json: bool,
}

/// Force clusters up, down or out for planned work.
///
/// An override stands above what probes say, until it expires. It is kept over restarts.
#[derive(Debug, Subcommand)]
pub(super) enum OverrideCommand {
    /// Force everything a pattern matches.
    ///
    /// The pattern names clusters, or single addresses of them as CLUSTER/ADDRESS; `*` stands for any characters, `?`
    /// for one. The answer tells what it holds for now.
    #[command(after_long_help = "\
Examples:
  fairway override add eu1 drain --reason 'kernel update' --for 2h
  fairway override add 'eu*/203.0.113.10' down --reason 'wrong certificate' --for 30m")]
    Add(OverrideAddArgs),
    /// List overrides in force, with reason and expiry.
    List(OverrideListArgs),
    /// Take an override back.
    Remove(OverrideRemoveArgs),
}

/// What `override add` takes.
#[derive(Debug, Args)]
pub(super) struct OverrideAddArgs {
    /// Which clusters or addresses: a pattern like `eu1`, `eu*`, `eu1/203.0.113.10`.
    #[arg(value_name = "PATTERN")]
    pub(super) scope: String,

    /// What they count as from now on.
    #[arg(value_enum)]
    pub(super) state: ForceState,

    /// Why, for those who read `status` and the log.
    #[arg(long, short, value_name = "TEXT")]
    pub(super) reason: String,

    /// For how long, up to 30d: like 30m, 2h, 1d12h. There is no default: an override that never ends is forgotten.
    #[arg(long = "for", value_name = "DURATION", value_parser = values::duration)]
    pub(super) lasts: Duration,

    /// Which running server to command.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// What a member can be forced to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ForceState {
    /// Answered whatever its probes say.
    Up,
    /// Not answered whatever its probes say, also when everything else is down.
    Down,
    /// Not answered any more, for planned work.
    Drain,
}

/// What `override list` takes.
#[derive(Debug, Args)]
pub(super) struct OverrideListArgs {
    /// Which running server to ask.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Print the list as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// What `override remove` takes.
#[derive(Debug, Args)]
pub(super) struct OverrideRemoveArgs {
    /// Its id, as `override list` shows it.
    pub(super) id: String,

    /// Which running server to command.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Have a running server read its configuration and zones again.
///
/// It also does so by itself when files change, and on SIGHUP. A bad new state is refused with its faults, and the old one
/// keeps serving: exit status 1.
#[derive(Debug, Args)]
pub(super) struct ReloadArgs {
    /// Which running server to command.
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Help with writing a configuration.
#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the JSON Schema of the configuration, for editors and tools.
    Schema,
    /// Print a commented configuration to start from.
    Example,
}

/// Play traffic against steering and load control, in virtual time.
///
/// Caches ask, gateways carry load and report it late, and things happen as the scenario says; what answers, judges and
/// balances is the server's own code. Prints what was reached beside what the scenario asks for; the worst seed counts.
/// Minutes of traffic take seconds, and a seed gives the same run everywhere.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway simulate bench/scenarios/steady.yaml
  fairway simulate --check bench/scenarios/*.yaml bench/scenarios/policies/*.yaml
  fairway simulate --seeds 7,8,9 --svg /tmp bench/scenarios/death.yaml")]
pub(super) struct SimulateArgs {
    /// Scenario files; docs/simulate.md tells what stands in them.
    #[arg(value_name = "SCENARIO", required = true, value_hint = ValueHint::FilePath)]
    pub(super) scenarios: Vec<PathBuf>,

    /// Seeds to play, instead of those of the scenario.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    pub(super) seeds: Vec<u64>,

    /// Draw the first seed of each scenario into this folder, as SCENARIO.svg.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) svg: Option<PathBuf>,

    /// Exit status 1 if a mark of a scenario is missed.
    #[arg(long)]
    pub(super) check: bool,
}

/// See it work on this machine: a name server, three gateways, one failure and its repair.
///
/// Starts three ingress gateways on loopback addresses and a name server that steers two names by their health:
/// shop.demo.example in shares of 60, 30 and 10, pay.demo.example in order of preference. Then it takes a gateway down and up
/// again, and shows when the verdict came, when the answers changed, and which share of clients each cluster got. Everything is
/// on loopback and in a temporary folder; nothing stays behind.
///
/// Shares are counted over many client networks, told apart by the ECS option (RFC 7871) of the demo's own queries: one client
/// always gets one answer, so asking again and again from this machine shows one cluster only.
///
/// Keeps running for you to play with until Ctrl-C.
#[derive(Debug, Args)]
pub(super) struct DemoArgs {
    /// Use real Envoy processes as gateways, in the shape of istio-ingressgateway.
    ///
    /// The binary is FAIRWAY_ENVOY, else `envoy` on the PATH.
    #[arg(long)]
    pub(super) envoy: bool,

    /// End after the show, within about 15 seconds: exit status 0 if everything that was announced happened, else 1.
    #[arg(long)]
    pub(super) once: bool,

    /// UDP and TCP port of the name server; default 5353, or any free one if that is taken.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: Option<u16>,
}

/// Print the version.
#[derive(Debug, Args)]
pub(super) struct VersionArgs {
    /// Print as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway completions bash > /etc/bash_completion.d/fairway
  fairway completions zsh > \"${fpath[1]}/_fairway\"
  fairway completions fish > ~/.config/fish/completions/fairway.fish")]
pub(super) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(super) shell: Shell,
}

/// Print the manual as roff pages.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway manual | man -l -
  fairway manual --dir /usr/local/share/man/man1")]
pub(super) struct ManualArgs {
    /// Write one page a command into this folder, which must exist, instead of the main page to standard output.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) dir: Option<PathBuf>,
}

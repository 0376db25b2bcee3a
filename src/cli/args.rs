//! Every command and flag. Help, manual pages and completions are made from these definitions.
//!
//! Each command has a file of its own name. Those with many arguments or subcommands define them there.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use fairway_model::{ClusterName, Name, Network, Rtype, Timestamp};

use super::{
    client::ServerArgs,
    contributions::ContributionsArgs,
    events::EventsArgs,
    objects::{ApplyArgs, DeleteArgs, DiffArgs, GetArgs},
    output::ColorWhen,
    overrides::OverrideCommand,
    publish::PublishCommand,
    rbac::RbacArgs,
    simulate::SimulateArgs,
    store::StoreCommand,
    token::TokenCommand,
    values,
};

/// Authoritative DNS server that balances load over clusters.
///
/// Fairway answers names with the addresses of clusters that can take the traffic. It probes their ingress gateways and distributes
/// clients over the healthy ones: by weight, in order of preference, by location or by load.
///
/// New here? `fairway demo` shows it at work on this machine in a few seconds.
#[derive(Debug, Parser)]
#[command(name = "fairway", version, max_term_width = 100, after_long_help = AFTER_HELP)]
#[command(disable_help_subcommand = true, subcommand_required = true, arg_required_else_help = true)]
pub(super) struct Cli {
    /// Colour the output: always, never or auto. Auto colours on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t, display_order = 900)]
    #[arg(hide_possible_values = true)]
    pub(super) color: ColorWhen,

    /// The command.
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Text below the long help and in the manual page.
const AFTER_HELP: &str = "\
Exit status:
  0  success; `check`: no error, but perhaps warnings; `diff`: nothing would change
  1  failure: an error in files, no running server, a port in use, a rejected change; the reason is
     on standard error; results of `check`, `reload`, `publish` and `simulate` are on standard
     output
  2  the command line is invalid
  3  `check --impact --against`: rules do not hold, but none that held before
  4  `diff`: something would change

Environment (flags take precedence over variables, and variables over the configuration file):
  FAIRWAY_CONFIG         configuration file or folder of serve, check and rbac
  FAIRWAY_DATA_DIR       data folder
  FAIRWAY_LISTEN_DNS     addresses for DNS, separated by commas
  FAIRWAY_LISTEN_HTTP    address of the HTTP listener, or off
  FAIRWAY_LISTEN_HEALTH  address of the listener for health probes
  FAIRWAY_LOG            log filter
  FAIRWAY_USER           user to switch to once all sockets are bound
  FAIRWAY_TOKEN          API token for a server that is called by its URL
  FAIRWAY_URL            URL of the server, instead of --server
  FAIRWAY_ENVOY          Envoy binary of demo --envoy
  NO_COLOR               if not empty: no colours";

/// A command. Its help is the doc comment of its arguments.
#[derive(Debug, Subcommand)]
#[allow(missing_docs, reason = "a comment here would replace the longer one at the arguments")]
pub(super) enum Command {
    Serve(ServeArgs),
    Check(CheckArgs),
    Explain(ExplainArgs),
    Events(EventsArgs),
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
    Rbac(RbacArgs),
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
/// With --config it does everything: health checks, steered names, the HTTP listener, and reloads on SIGHUP and when files change.
/// With --listen and --zone instead it serves static zones only, keeps nothing on disk and opens no HTTP listener.
///
/// On SIGTERM and SIGINT it drains: it answers the queries that it has accepted, then it ends.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway serve --config /etc/fairway/fairway.yaml
  fairway serve --listen 127.0.0.1:5300 --zone example.org=example.org.zone
  dig @127.0.0.1 -p 5300 example.org SOA

Exit status:
  0  it was stopped, or another process took over from it
  1  it did not start; the reason is on standard error
  2  the command line is invalid")]
pub(super) struct ServeArgs {
    /// Configuration file, or a folder whose *.yaml files are read together. Environment: FAIRWAY_CONFIG.
    // The variables are read in code: clap would count them as given, and reject them with flags that they conflict with.
    #[arg(long, short, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) config: Option<PathBuf>,

    /// Folder for everything that survives a restart; created with mode 0700 if missing, and locked.
    ///
    /// Default: `dataDir` of the configuration, else STATE_DIRECTORY (set by systemd), else /var/lib/fairway for root, else
    /// $XDG_STATE_HOME/fairway or ~/.local/state/fairway. Environment: FAIRWAY_DATA_DIR.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) data_dir: Option<PathBuf>,

    /// Take over from the process that runs on the same data folder, without losing a query.
    ///
    /// That process hands over its sockets with the queries that are queued in them, then it drains and ends. If none runs, this
    /// is an ordinary start.
    #[arg(long)]
    pub(super) replace: bool,

    /// Address and port for DNS over UDP and TCP; may be repeated. Only without --config.
    #[arg(long, value_name = "ADDR:PORT", requires = "zone", conflicts_with_all = ["config", "data_dir", "replace"])]
    pub(super) listen: Vec<SocketAddr>,

    /// Zone and its file in the format of RFC 1035; may be repeated. Only without --config.
    #[arg(long, value_name = "NAME=FILE", value_parser = values::zone_file, requires = "listen")]
    #[arg(conflicts_with = "config", value_hint = ValueHint::FilePath)]
    pub(super) zone: Vec<(Name, PathBuf)>,

    /// Log filter: a level (error, warn, info, debug, trace), or directives like `info,fairway_health=debug`.
    ///
    /// Default: `log` of the configuration, else `info`. On a terminal the lines are text, otherwise each line is a JSON object.
    /// Environment: FAIRWAY_LOG.
    #[arg(long, value_name = "FILTER")]
    pub(super) log: Option<String>,
}

/// Check configuration and zone files; report all errors at once.
///
/// Each error is one line on standard output, `file:line:column: error; hint`; warnings are marked. A summary follows. Nothing is
/// started and nothing is probed.
///
/// With --impact it shows the effect of failures instead. It checks that each client network keeps a live cluster when any one is
/// down, that no other cluster is overloaded then, that every member can be answered, and that TTLs fit the time for a drain.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway check /etc/fairway/fairway.yaml
  fairway check --zone example.org=example.org.zone
  fairway check new.yaml --impact --against /etc/fairway/fairway.yaml --offered 60 --drain-budget 60s

Exit status:
  0  no error; without --strict there may be warnings
  1  there is an error, or a rule of --impact does not hold
  2  the command line is invalid
  3  with --against: rules do not hold, but none that held before")]
pub(super) struct CheckArgs {
    /// Configuration file, or a folder whose *.yaml files are read together. Environment: FAIRWAY_CONFIG.
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) config: Option<PathBuf>,

    /// The same, as `serve` takes it.
    #[arg(long = "config", value_name = "FILE|DIR", conflicts_with = "config", value_hint = ValueHint::AnyPath)]
    pub(super) config_flag: Option<PathBuf>,

    /// Zone and its file, to check without a configuration; may be repeated.
    #[arg(long, value_name = "NAME=FILE", value_parser = values::zone_file, conflicts_with_all = ["config", "config_flag"])]
    #[arg(value_hint = ValueHint::FilePath)]
    pub(super) zone: Vec<(Name, PathBuf)>,

    /// Treat warnings as errors.
    #[arg(long)]
    pub(super) strict: bool,

    /// Print the errors and warnings only, without the summary.
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// Effect of failures.
    #[command(flatten)]
    pub(super) impact: ImpactArgs,
}

/// Arguments of `check --impact`.
#[derive(Debug, Args)]
pub(super) struct ImpactArgs {
    /// Show the effect of failures, and what the configuration changes.
    #[arg(long, conflicts_with_all = ["zone", "quiet"])]
    pub(super) impact: bool,

    /// Configuration to compare with: shows which clients move, and which rules did not hold before. Exit status 3 if nothing is worse.
    #[arg(long, value_name = "FILE|DIR", requires = "impact", value_hint = ValueHint::AnyPath)]
    pub(super) against: Option<PathBuf>,

    /// Load of each cluster in use while all are up, in percent of its capacity. With any one down, no other may exceed 100.
    ///
    /// Every cluster must declare its capacity. Without this flag, only the highest load that still fits is shown.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent, requires = "impact")]
    pub(super) offered: Option<f64>,

    /// Longest time that caches may keep the answers of a drained cluster: no TTL of a steered name may exceed it.
    #[arg(long, value_name = "DURATION", value_parser = values::duration, requires = "impact")]
    pub(super) drain_budget: Option<Duration>,

    /// Print the report as JSON.
    #[arg(long, requires = "impact")]
    pub(super) json: bool,
}

/// Explain the answer to a name.
///
/// Shows the zone, the node, the policy, every member with the reason why it is in the answer or not, the source of the TTL, and the
/// answer. It calls the running server. With --config it reads files instead: nothing is probed, and every target counts as up,
/// except those of clusters that --down names.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway explain shop.gslb.example
  fairway explain shop.gslb.example --type AAAA --client 203.0.113.0/24
  fairway explain shop.gslb.example --client 203.0.113.0/24 --at 03:12
  fairway explain shop.gslb.example --config fairway.yaml --down eu1")]
pub(super) struct ExplainArgs {
    /// Name to explain, absolute with or without its final dot.
    #[arg(value_name = "NAME", value_parser = values::name)]
    pub(super) name: Name,

    /// Record type of the query: a mnemonic like AAAA, or TYPE65280.
    #[arg(long = "type", short = 't', value_name = "TYPE", default_value = "A")]
    pub(super) rtype: Rtype,

    /// Network of the client, as in an ECS option, or one address; by default the query has none and comes from 127.0.0.1.
    #[arg(long, short, value_name = "SUBNET", value_parser = values::client_network)]
    pub(super) client: Option<Network>,

    /// Explain the answer of that time, as far as the change log reaches (history.bytes): RFC 3339, a time ago like 90m, or a time of day
    /// in UTC like 03:12.
    #[arg(long, value_name = "TIME", value_parser = values::past, conflicts_with = "config")]
    pub(super) at: Option<Timestamp>,

    /// Read these files, without a running server.
    #[arg(long, value_name = "FILE|DIR", conflicts_with_all = ["data_dir", "server"], value_hint = ValueHint::AnyPath)]
    pub(super) config: Option<PathBuf>,

    /// Assume that every target of this cluster is down; may be repeated. Needs --config.
    #[arg(long, value_name = "CLUSTER", value_parser = values::cluster, requires = "config")]
    pub(super) down: Vec<ClusterName>,

    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Print the explanation as JSON, as `GET /v1/explain` returns it.
    #[arg(long)]
    pub(super) json: bool,
}

/// Show the effect of a changed configuration on recorded queries.
///
/// Answers the queries of a query log (`queryLog` of the configuration) with the code of the server, under the new configuration and
/// under the old one. Prints the share of each cluster and how many queries move. Nothing is probed and nothing is applied: every
/// target counts as up, except those of clusters that --down names.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway replay --log query.log --from /etc/fairway/fairway.yaml --against new.yaml
  fairway replay --log query.log --against fairway.yaml --down eu1 --offered 60")]
pub(super) struct ReplayArgs {
    /// The query log; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) log: PathBuf,

    /// The new configuration: a file, or a folder whose *.yaml files are read together.
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) against: PathBuf,

    /// The old configuration, to compare with.
    #[arg(long, value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    pub(super) from: Option<PathBuf>,

    /// Assume that every target of this cluster is down; may be repeated.
    #[arg(long, value_name = "CLUSTER", value_parser = values::cluster)]
    pub(super) down: Vec<ClusterName>,

    /// Demand in percent of the capacity of all clusters of the answering pools: shows the load of each cluster.
    ///
    /// Every cluster must declare its capacity. The capacity of clusters that --down names still counts, which shows the load after
    /// a failure.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    pub(super) offered: Option<f64>,

    /// Print the report as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// Show the state of a running server.
///
/// Shows listeners, zones, pools with the health of every member, targets with the cause of their status, overrides and the last
/// reload.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// The server.
    #[command(flatten)]
    pub(super) server: ServerArgs,

    /// Print the state as JSON, as `GET /v1/state` returns it.
    #[arg(long)]
    pub(super) json: bool,
}

/// Reload configuration and zones of a running server.
///
/// The server also reloads when files change, and on SIGHUP. If the new state has errors, it is rejected, the errors are printed, the
/// old state stays in use, and the exit status is 1. The same holds if the files no longer declare many names: all names of a zone (at
/// least two), or more than ten and more than a fifth, of a zone or of all.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit status:
  0  the new state is in use, also if nothing changed
  1  it was rejected, and the errors are on standard output; or the command failed, and the reason
     is on standard error
  2  the command line is invalid")]
pub(super) struct ReloadArgs {
    /// Apply files that no longer declare many names.
    #[arg(long)]
    pub(super) allow_removals: bool,

    /// The server.
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

/// Show Fairway at work on this machine: a name server, three gateways, one failure and its recovery.
///
/// Starts three ingress gateways on loopback addresses and a name server that steers two names by their health: shop.demo.example in
/// shares of 60, 30 and 10, pay.demo.example in order of preference. Then it takes one gateway down and up again, and prints when the
/// health changed, when the answers changed, and the share of clients of each cluster. It uses only loopback addresses and a temporary
/// folder, which it removes.
///
/// One client always gets the same answer, so repeated queries from this machine show one cluster only. The demo measures shares
/// with many client networks, which it sends in the ECS option (RFC 7871) of its own queries.
///
/// It keeps running until Ctrl-C and shows the effect of what you do.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit status:
  0  everything happened as announced, or you ended it before
  1  something did not happen as announced; it is on standard error
  2  the command line is invalid")]
pub(crate) struct DemoArgs {
    /// Use real Envoy processes as gateways, configured like istio-ingressgateway.
    ///
    /// The binary is FAIRWAY_ENVOY, else `envoy` on the PATH.
    #[arg(long)]
    pub(crate) envoy: bool,

    /// End after the demonstration, within about 15 seconds. Exit status 0 if everything happened as announced, else 1.
    #[arg(long)]
    pub(crate) once: bool,

    /// UDP and TCP port of the name server; default 5353, or any free port if that is taken.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
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
    pub(super) shell: Shell,
}

/// Print the manual as roff pages.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  fairway manual | man -l -
  fairway manual --dir /usr/local/share/man/man1")]
pub(super) struct ManualArgs {
    /// Write one page per command into this folder, which must exist. Default: the main page to standard output.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) dir: Option<PathBuf>,
}

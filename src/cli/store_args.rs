//! Arguments of `fairway store`, with their help. Only definitions.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Back up, restore and verify the object store, and show the history of an object.
///
/// These commands read the data folder themselves. A server may run on it meanwhile, except for `restore`.
#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Copy the store into a new file, also while a server runs.
    ///
    /// The copy is consistent and is verified; it is on disk when the command ends. An existing file is not overwritten.
    #[command(after_long_help = "\
Examples:
  fairway store backup /var/backups/fairway-$(date +%F).redb")]
    Backup(StoreFileArgs),
    /// Show the changes of an object: when, by whom, and why.
    #[command(after_long_help = "\
Examples:
  fairway store history pool/shop
  fairway store history pool/shop --revision 1207 > shop.json")]
    History(StoreHistoryArgs),
    /// Replace the store by a backup. No server may run on the data folder.
    ///
    /// The backup is verified first. The replaced store is kept as `objects.redb.replaced`. Revisions continue above those of both
    /// stores, so that no revision number is used twice.
    Restore(StoreFileArgs),
    /// Verify the store of a data folder, or a backup.
    ///
    /// Reads every row. If no server runs, it also checks the pages of the file and repairs a file that a crash left unclean, as the
    /// next start would do.
    Verify(StoreVerifyArgs),
}

/// Arguments of `store backup` and `store restore`.
#[derive(Debug, Args)]
pub(super) struct StoreFileArgs {
    /// The backup.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,

    /// The data folder.
    #[command(flatten)]
    pub(super) folder: StoreFolderArgs,
}

/// Arguments of `store history`.
#[derive(Debug, Args)]
pub(super) struct StoreHistoryArgs {
    /// The object: KIND/NAME or KIND/NAME/NAME/..., as in pool/shop.
    #[arg(value_name = "KEY")]
    pub(super) key: String,

    /// Print the object as it was at this revision, byte for byte, instead of the list.
    #[arg(long, value_name = "N")]
    pub(super) revision: Option<u64>,

    /// The data folder.
    #[command(flatten)]
    pub(super) folder: StoreFolderArgs,
}

/// Arguments of `store verify`.
#[derive(Debug, Args)]
pub(super) struct StoreVerifyArgs {
    /// A backup, instead of the store of the data folder.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "data_dir")]
    pub(super) file: Option<PathBuf>,

    /// The data folder.
    #[command(flatten)]
    pub(super) folder: StoreFolderArgs,
}

/// The data folder that holds the store.
#[derive(Clone, Debug, Args)]
pub(super) struct StoreFolderArgs {
    /// Data folder of the server; default as for `serve`. Environment: FAIRWAY_DATA_DIR.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) data_dir: Option<PathBuf>,
}

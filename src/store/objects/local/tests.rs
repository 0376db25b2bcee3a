use std::sync::Arc;

use tempfile::TempDir;

use super::super::{LocalStore, ObjectStore, contract::keeps_the_contract};

fn fresh() -> (TempDir, Arc<dyn ObjectStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalStore::open(folder.path()).unwrap());
    (folder, store)
}

keeps_the_contract!(fresh());

//! Declared objects without a store.

use super::*;

#[tokio::test]
async fn objects_without_data_folder_are_refused_with_the_reason() {
    let scene = Scene::new(&silent());
    let declared = Arc::default();
    let objects = crate::objects::at_start(&fairway_config::Settings::default(), None, &declared).await;
    let (control, _actor) = scene.run().await;
    control.set_objects(objects);
    let error = control.objects().err().unwrap().to_string();
    assert!(error.contains("there is no data folder") && error.contains("--data-dir"), "{error}");
}

//! Notifications of the service manager.

use std::os::{
    linux::net::SocketAddrExt,
    unix::net::{SocketAddr, UnixDatagram},
};

use super::{super::Notifier, PATIENCE};

fn received(manager: &UnixDatagram) -> String {
    let mut message = [0; 256];
    let length = manager.recv(&mut message).expect("a message");
    String::from_utf8_lossy(&message[..length]).into_owned()
}

#[test]
fn service_manager_receives_ready_main_pid_and_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let notifier = Notifier::new(Some(path.into()));
    notifier.ready("Serving 3 zones\nMAINPID=1");
    notifier.main_process(7);
    notifier.stopping();
    assert_eq!(received(&manager), "READY=1\nSTATUS=Serving 3 zones MAINPID=1");
    assert_eq!(received(&manager), "MAINPID=7");
    assert!(received(&manager).starts_with("STOPPING=1\n"));
}

#[test]
fn abstract_socket_name_is_supported() {
    let name = format!("fairway-notify-{}", std::process::id());
    let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    Notifier::new(Some(format!("@{name}").into())).main_process(7);
    assert_eq!(received(&manager), "MAINPID=7");
}

#[test]
fn notifier_without_service_manager_does_nothing() {
    Notifier::new(None).ready("unheard");
    Notifier::new(Some("relative/path".into())).ready("unheard");
    Notifier::new(Some("/nobody/listens/here".into())).stopping();
}

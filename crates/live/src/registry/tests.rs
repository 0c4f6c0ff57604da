//! What a session's file can make us do, and what it cannot.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};

use super::*;
use crate::offload::Merging;
use crate::start::MARK;

/// A directory of sessions, and a session whose process has gone.
fn sessions() -> (tempfile::TempDir, PrivateDirectory, Session) {
    let parent = tempfile::tempdir().unwrap();
    let directory = PrivateDirectory::open(parent.path(), "warpline").unwrap();
    // Numbers of processes are below 2^22.
    let session = Session {
        base: fs::metadata("/proc/thread-self/ns/net").unwrap().ino(),
        ..Session::of(4_999_999, 7, 0, "a test")
    };
    (parent, directory, session)
}

fn write(directory: &PrivateDirectory, session: &Session) {
    directory.write(&session.file(), &serde_json::to_vec(session).unwrap()).unwrap();
}

fn cleaned(directory: &PrivateDirectory) -> (Cleaned, Vec<String>) {
    let mut reported = Vec::new();
    let cleaned = clean_in(directory, &mut |text| reported.push(text.to_owned())).unwrap();
    (cleaned, reported)
}

#[test]
fn no_file_is_written_but_settings_of_the_list() {
    let (parent, directory, session) = sessions();
    let victim = parent.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let mut text = serde_json::to_value(&session).unwrap();
    for path in [victim.as_path(), std::path::Path::new("/proc/sys/kernel/core_pattern")] {
        text["settings"] = serde_json::json!([[path, "overwritten"]]);
        directory.write(&session.file(), text.to_string().as_bytes()).unwrap();
        let (cleaned, _) = cleaned(&directory);
        assert!(cleaned.sessions.is_empty(), "{cleaned:?}");
        assert!(directory.names().unwrap().is_empty());
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    // A setting of the list, with a value that it never had.
    let before = Setting::ForwardIpv4.value().unwrap();
    write(&directory, &Session { settings: vec![(Setting::ForwardIpv4, "7".to_owned())], ..session });
    let (cleaned, reported) = cleaned(&directory);
    assert_eq!(cleaned.sessions[0].1, [""; 0]);
    assert!(reported[0].contains("7 of /proc/sys/net/ipv4/ip_forward"), "{reported:?}");
    assert_eq!(Setting::ForwardIpv4.value().unwrap(), before);
}

#[test]
fn sockets_of_runs_that_have_gone_are_removed_and_others_are_not() {
    use std::os::unix::net::UnixListener;
    let (_parent, directory, _) = sessions();
    let path = |name: &str| directory.path().join(name);
    drop(UnixListener::bind(path("gone-1.sock")).unwrap());
    let _listens = UnixListener::bind(path("here-2.sock")).unwrap();
    fs::write(path("file.sock"), "mine").unwrap();
    cleaned(&directory);
    assert_eq!(directory.names().unwrap(), ["file.sock", "here-2.sock"]);
}

#[test]
fn tables_interfaces_and_groups_that_no_session_makes_are_left_alone_and_reported() {
    let (_parent, directory, session) = sessions();
    let own = nftables::table(&session.id);
    let session = Session {
        interfaces: vec!["eth0".to_owned(), "wl64".to_owned(), "wl007".to_owned()],
        tables: vec![format!("ip {own}; flush ruleset"), "ip filter".to_owned(), format!("ip {own}1")],
        cgroups: vec![
            "/system.slice".to_owned(),
            format!("/../{}", cgroup::group_name(&session.id)),
            format!("/{}-not", cgroup::group_name(&session.id)),
        ],
        ..session
    };
    write(&directory, &session);
    let (cleaned, reported) = cleaned(&directory);
    assert_eq!(cleaned.sessions, [("a test (process 4999999)".to_owned(), vec![])]);
    assert_eq!(reported.len(), 9, "{reported:#?}");
    assert!(reported.iter().all(|text| text.starts_with("left alone: the ")), "{reported:#?}");
}

#[test]
fn what_a_session_makes_is_accepted() {
    let mut session = Session::of(1, 2, 0, "a test");
    session.interfaces = vec!["wl0".to_owned(), "wl63".to_owned()];
    session.tables = ["ip", "inet"].map(|family| format!("{family} {}", nftables::table("1-2"))).to_vec();
    session.cgroups = vec![format!("/user.slice/{}", cgroup::group_name("1-2"))];
    session.settings = vec![(Setting::ForwardIpv4, "0".to_owned())];
    let before = session.clone();
    leave_foreign(&mut session, &mut |text| panic!("{text}"));
    assert_eq!(session, before);
    // In the format of earlier versions.
    let text = serde_json::to_string(&session).unwrap();
    assert!(text.contains(r#""settings":[["/proc/sys/net/ipv4/ip_forward","0"]]"#), "{text}");
    assert!(!text.contains("number"), "{text}");
    assert_eq!(Session::read("1-2.json", text.as_bytes()), Some(session));
}

#[test]
fn each_session_of_a_process_has_a_file_of_its_own() {
    let (_parent, directory, session) = sessions();
    let second = Session::of(session.pid, session.started, 1, "the second");
    assert_eq!((session.file(), second.file()), ("4999999-7.json".into(), "4999999-7-1.json".into()));
    assert!(is_dead(&second.file()) && is_dead(&format!("{}{DRAFT}", second.file())));
    assert!(!is_dead("4999999-7-x.json"));
    write(&directory, &session);
    write(&directory, &second);
    assert_eq!(cleaned(&directory).0.sessions.len(), 2);
}

#[test]
fn settings_of_interfaces_are_of_the_list_and_name_an_interface() {
    for merging in Merging::ALL {
        let setting = Setting::Merging(merging, "eth1.100".to_owned());
        let text = String::from(setting.clone());
        assert_eq!(Setting::try_from(text), Ok(setting));
    }
    for wrong in
        ["gso of eth1", "gro of ", "gro of a/b", "gro of ..", "gro of a b", "gro of 0123456789abcdef", "gro"]
    {
        assert!(Setting::try_from(wrong.to_owned()).is_err(), "{wrong}");
    }
}

#[test]
fn a_setting_that_another_session_needs_is_left_to_it() {
    let setting = |name: &str| (Setting::Merging(Merging::Gro, name.to_owned()), "1".to_owned());
    let mut session = Session::of(1, 2, 0, "a test");
    session.settings = vec![setting("eth1"), setting("eth2")];
    let other = Session { settings: vec![setting("eth2")], ..Session::of(3, 4, 0, "another") };
    let third = Session::of(5, 6, 0, "one without settings");
    leave_shared(&mut session, [&other, &third].into_iter());
    assert_eq!(session.settings, [setting("eth1")]);
}

#[test]
fn a_file_speaks_only_for_the_session_that_it_is_named_after() {
    let (_parent, directory, session) = sessions();
    let other = Session::of(4_999_998, 3, 0, "another");
    directory.write(&other.file(), &serde_json::to_vec(&session).unwrap()).unwrap();
    let id = Session { id: "x; y".to_owned(), ..session };
    directory.write(&id.file(), &serde_json::to_vec(&id).unwrap()).unwrap();
    let (cleaned, _) = cleaned(&directory);
    assert!(cleaned.sessions.is_empty());
    // A file without the name of a session is not ours to remove.
    assert_eq!(directory.names().unwrap(), ["x; y.json"]);
}

#[test]
fn a_file_that_cannot_be_understood_goes_with_its_process_and_not_before() {
    let (_parent, directory, session) = sessions();
    let own = std::process::id() as i32;
    let alive = Session::of(own, started(own).unwrap(), 0, "");
    for name in [alive.file(), session.file(), format!("{}{DRAFT}", session.file())] {
        directory.write(&name, b"{\"id\": 7").unwrap();
    }
    cleaned(&directory);
    assert_eq!(directory.names().unwrap(), [alive.file()]);
}

#[test]
fn the_directory_is_below_one_that_is_this_user_s() {
    let directory = directory().unwrap();
    let parent: PathBuf = directory.path().parent().unwrap().to_owned();
    let own = parent.metadata().unwrap().uid() == Uid::effective().as_raw();
    assert!(own || parent == Path::new("/tmp"), "{}", directory.path().display());
}

fn own_namespace() -> u64 {
    fs::metadata("/proc/self/ns/net").unwrap().ino()
}

fn session_of(id: &str) -> Session {
    Session { id: id.to_owned(), namespaces: vec![own_namespace()], ..Session::default() }
}

fn sleeper(mark: &str) -> Child {
    Command::new("sleep").arg("600").env(MARK, mark).spawn().unwrap()
}

fn ends(child: &mut Child) -> bool {
    (0..100).any(|_| {
        pause();
        child.try_wait().unwrap().is_some()
    })
}

#[test]
fn only_what_has_the_mark_in_the_namespace_is_ended_and_it_is_reported_before() {
    let id = format!("{}-1", std::process::id());
    let (mut own, mut other) = (sleeper(&id), sleeper("1-1"));
    let mut reported = Vec::new();
    // The mark alone is not enough.
    assert!(
        end(&Session { namespaces: vec![1], ..session_of(&id) }, &mut |text| reported.push(text.to_owned()))
            .is_empty()
    );
    assert!(end(&session_of("none-such"), &mut |text| reported.push(text.to_owned())).is_empty());
    assert!(reported.is_empty() && own.try_wait().unwrap().is_none());
    let ended = end(&session_of(&id), &mut |text| reported.push(text.to_owned()));
    assert_eq!(ended, [format!("process {} (sleep)", own.id())]);
    assert!(
        reported.len() == 1 && reported[0].starts_with(&format!("ending process {} (sleep)", own.id())),
        "{reported:?}"
    );
    assert!(ends(&mut own) && other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

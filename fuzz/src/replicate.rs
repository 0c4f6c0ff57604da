//! Messages of the other end of a replication: no bytes make the readers panic, and no accepted tree has a name that leads out of it.
use warpline_apps::replicate::manifest::{Kind, Manifest};
use warpline_apps::replicate::protocol::{Answer, Hello, Say, decode};

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let _ = (decode::<Hello>(bytes), decode::<Say>(bytes), decode::<Answer>(bytes));
    // The magic line is given, so that the fuzzer need not find it.
    let encoded = [&b"warpline tree 1\n"[..], bytes].concat();
    let Ok(manifest) = Manifest::decode(&encoded) else { return };
    for entry in manifest.entries.iter().skip(1) {
        assert!(!entry.path.starts_with(b"/") && !entry.path.is_empty());
        assert!(entry.path.split(|&byte| byte == b'/').all(|name| !matches!(name, b"" | b"." | b"..")));
        if let Kind::Link { target } = &entry.kind {
            assert!(!target.starts_with(b"/"));
        }
    }
    assert_eq!(Manifest::decode(&manifest.encode()), Ok(manifest));
}

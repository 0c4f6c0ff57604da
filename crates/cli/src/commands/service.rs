//! `warpline service`: systemd units that run the servers sandboxed. They are in `packaging/systemd`, and in the program.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Subcommand, ValueEnum, ValueHint};
use warpline_live::doctor::Finding;

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
The servers run as users of their own, without privileges, and see only the parts
of the machine that they need. systemd looks for the program in /usr/local/bin and
/usr/bin: install it there first.

Examples:
  sudo install target/release/warpline /usr/local/bin/
  sudo warpline service install capd
  sudo systemctl daemon-reload
  sudo systemctl enable --now warpline-capd
  Print what it would write:
    warpline service show capd
  For a package, below another root:
    warpline service install replicate --root debian/warpline";

/// Run a server as a systemd service: show or install its unit
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print the files of a service
    Show {
        /// The service
        service: Service,
    },
    /// Write the files of a service where systemd looks for them
    Install {
        /// The service
        service: Service,
        /// Root directory for the files
        #[arg(long, value_name = "DIRECTORY", default_value = "/", value_hint = ValueHint::DirPath)]
        root: PathBuf,
    },
}

/// A server that can be a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Service {
    /// `warpline capd`, the server of capacity tests
    Capd,
    /// `warpline replicate serve`, the receiver of replicas
    Replicate,
}

/// A file of a service.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// Where to look for it: first in the directory that we write to, then in those of packages.
    directories: &'static [&'static str],
    name: &'static str,
    text: &'static str,
}

const UNITS: &[&str] = &["/etc/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
const USERS: &[&str] = &["/etc/sysusers.d", "/usr/lib/sysusers.d"];

const CAPD: Unit = Unit {
    directories: UNITS,
    name: "warpline-capd.service",
    text: include_str!("../../../../packaging/systemd/warpline-capd.service"),
};
const REPLICATE: Unit = Unit {
    directories: UNITS,
    name: "warpline-replicate.service",
    text: include_str!("../../../../packaging/systemd/warpline-replicate.service"),
};
const REPLICATE_USER: Unit = Unit {
    directories: USERS,
    name: "warpline-replicate.conf",
    text: include_str!("../../../../packaging/systemd/warpline-replicate.conf"),
};

impl Unit {
    /// Where it is installed below `root`; `None` if it is not.
    fn installed(&self, root: &Path) -> Option<PathBuf> {
        let places = self.directories.iter().map(|directory| below(root, directory).join(self.name));
        places.into_iter().find(|path| path.exists())
    }

    /// Writes it in one step: a reader sees the complete new file or the old one.
    fn install(&self, root: &Path) -> io::Result<PathBuf> {
        let directory = below(root, self.directories[0]);
        fs::create_dir_all(&directory)?;
        let path = directory.join(self.name);
        let draft = directory.join(format!(".{}.{}", self.name, std::process::id()));
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&draft)?;
            file.write_all(self.text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &path)
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written.map(|()| path)
    }
}

fn below(root: &Path, directory: &str) -> PathBuf {
    root.join(directory.trim_start_matches('/'))
}

impl Service {
    /// Its unit, and the files that the unit needs.
    fn units(self) -> &'static [Unit] {
        match self {
            Service::Capd => &[CAPD],
            Service::Replicate => &[REPLICATE, REPLICATE_USER],
        }
    }

    /// What to do after its files have changed.
    const fn next(self) -> &'static str {
        match self {
            Service::Capd => "systemctl daemon-reload && systemctl enable --now warpline-capd",
            Service::Replicate => {
                "systemd-sysusers && systemctl daemon-reload, make its key (see warpline service show replicate), and \
                 systemctl enable --now warpline-replicate"
            }
        }
    }

    /// Name, use and remedy for the doctor's finding.
    const fn words(self) -> [&'static str; 3] {
        match self {
            Service::Capd => [
                "service capd",
                "warpline capd as a service",
                "sudo warpline service install capd; sudo systemctl daemon-reload; sudo systemctl restart warpline-capd; and if it fails, \
                 journalctl -u warpline-capd",
            ],
            Service::Replicate => [
                "service replicate",
                "warpline replicate serve as a service",
                "sudo warpline service install replicate; sudo systemctl daemon-reload; sudo systemctl restart warpline-replicate; and if \
                 it fails, journalctl -u warpline-replicate",
            ],
        }
    }

    /// The doctor's finding: whether it is installed below `root` as this version ships it, and the unit's state from `state`.
    fn examine(self, root: &Path, state: impl FnOnce(&str) -> Option<String>) -> Finding {
        let [name, used_for, remedy] = self.words();
        let finding = |ok: bool, found: String| Finding {
            name,
            ok,
            found,
            used_for,
            remedy: if ok { "" } else { remedy },
        };
        let Some(unit) = self.units()[0].installed(root) else {
            return finding(
                true,
                format!("can be installed: {}", remedy.split(';').next().unwrap_or_default()),
            );
        };
        for unit in self.units() {
            let Some(path) = unit.installed(root) else {
                return finding(false, format!("installed without {}", unit.name));
            };
            match fs::read_to_string(&path) {
                Ok(text) if text == unit.text => {}
                Ok(_) => {
                    return finding(false, format!("{} is not as this version ships it", path.display()));
                }
                Err(error) => return finding(false, format!("{} cannot be read: {error}", path.display())),
            }
        }
        match state(self.units()[0].name).as_deref() {
            Some("active") => finding(true, format!("{}, running", unit.display())),
            Some("failed") => finding(false, format!("{}, has failed", unit.display())),
            Some(other) => finding(true, format!("{}, not running ({other})", unit.display())),
            None => finding(true, format!("{}, and no systemd to run it", unit.display())),
        }
    }
}

/// The state of a unit according to systemd; `None` if there is no systemd.
fn state(unit: &str) -> Option<String> {
    let answer = Command::new("systemctl").args(["is-active", unit]).stderr(Stdio::null()).output().ok()?;
    let word = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    (!word.is_empty()).then_some(word)
}

/// The services, for the doctor.
pub(crate) fn examine() -> Vec<Finding> {
    Service::value_variants().iter().map(|service| service.examine(Path::new("/"), state)).collect()
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let mut text = String::new();
    match &args.action {
        Action::Show { service } => {
            for (number, unit) in service.units().iter().enumerate() {
                let gap = if number > 0 { "\n" } else { "" };
                text += &format!("{gap}# {}/{}\n{}", unit.directories[0], unit.name, unit.text);
            }
        }
        Action::Install { service, root } => {
            for unit in service.units() {
                let path = unit.install(root).map_err(|error| {
                    let path = below(root, unit.directories[0]).join(unit.name);
                    Failure::output(format!("cannot write {}: {error}", path.display()))
                })?;
                text += &format!("wrote {}\n", path.display());
            }
            text += &format!("next: {}\n", service.next());
        }
    }
    output::print(&text)?;
    Ok(Code::Success)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::Parser;

    /// The values of a key in a unit.
    fn values<'a>(unit: &'a Unit, key: &str) -> Vec<&'a str> {
        let lines = unit.text.lines().map(str::trim);
        lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
    }

    #[test]
    fn units_have_valid_command_lines() {
        for service in Service::value_variants() {
            let unit = &service.units()[0];
            let lines = values(unit, "ExecStart");
            assert_eq!(lines.len(), 1, "{}", unit.name);
            // Also the commands in comments.
            let proposed = unit.text.lines().filter_map(|line| line.strip_prefix("#   ExecStart=warpline"));
            let proposed = proposed.map(|rest| format!("warpline{rest}"));
            for line in lines.into_iter().map(str::to_owned).chain(proposed) {
                let words: Vec<&str> = line.split_whitespace().collect();
                assert_eq!(words[0], "warpline");
                let parsed = Cli::try_parse_from(&words);
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_service_is_sandboxed() {
        for service in Service::value_variants() {
            let unit = &service.units()[0];
            let has = |key: &str, value: &str| {
                assert!(values(unit, key).contains(&value), "{}: no {key}={value}", unit.name);
            };
            has("NoNewPrivileges", "yes");
            has("ProtectSystem", "strict");
            has("ProtectHome", "yes");
            has("RestrictSUIDSGID", "yes");
            has("CapabilityBoundingSet", "");
            has("SystemCallFilter", "@system-service");
            has("SocketBindDeny", "any");
            assert!(!values(unit, "MemoryMax").is_empty());
            assert!(values(unit, "DynamicUser") == ["yes"] || !values(unit, "User").is_empty());
            assert!(!values(unit, "User").contains(&"root"));
        }
        // The unit's user must be the user that the other file creates.
        let user = values(&REPLICATE, "User")[0];
        assert!(REPLICATE_USER.text.contains(&format!("\nu {user} ")), "{}", REPLICATE_USER.text);
    }

    #[test]
    fn the_doctor_reports_what_is_installed_has_changed_and_runs() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for &service in Service::value_variants() {
            let examine = |state: Option<&str>| service.examine(root, |_| state.map(str::to_owned));
            let found = examine(Some("inactive"));
            assert!(
                found.ok && found.found.starts_with("can be installed: sudo warpline service install "),
                "{found:?}"
            );
            let paths: Vec<PathBuf> =
                service.units().iter().map(|unit| unit.install(root).unwrap()).collect();
            for (state, ok, word) in [
                (Some("active"), true, "running"),
                (Some("inactive"), true, "not running"),
                (Some("failed"), false, "failed"),
                (None, true, "no systemd"),
            ] {
                let found = examine(state);
                assert!(
                    found.ok == ok && found.found.contains(word) && found.remedy.is_empty() == ok,
                    "{found:?}"
                );
            }
            for path in &paths {
                let text = fs::read_to_string(path).unwrap();
                fs::write(path, format!("{text}# changed\n")).unwrap();
                let found = examine(Some("active"));
                assert!(!found.ok && found.found.contains("not as this version ships it"), "{found:?}");
                assert!(found.remedy.contains("warpline service install"), "{found:?}");
                // Installing again restores it.
                service.units().iter().for_each(|unit| drop(unit.install(root).unwrap()));
                assert!(examine(Some("active")).ok);
            }
            let names = fs::read_dir(paths[0].parent().unwrap()).unwrap();
            assert!(names.flatten().all(|entry| !entry.file_name().to_string_lossy().starts_with('.')));
        }
    }
}

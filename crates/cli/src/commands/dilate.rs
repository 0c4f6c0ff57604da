//! `warpline dilate`: a command on one of two Linux guests around a link, in dilated time.

use std::env;
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use signal_hook::consts::SIGTERM;
use warpline_lab::run::dilate::{DilateConfig, Ending, dilate};
use warpline_net::{LinkConfig, RateConfig};
use warpline_scenario::short::part;
use warpline_scenario::{Size, Tdf, Time};

use crate::commands::link_args::{LinkArgs, or_shell, report, values};
use crate::commands::run;
use crate::failure::{Code, Failure};

const BEGINNING: &str = "\
A second of the command takes FACTOR seconds of this machine, so the link and the
rest of the world are FACTOR times as fast to it. All rates and times on the command
line are as the command sees them. Up is from the command to its peer.
";

const EXAMPLES: &str = "\
In the environment of the command:
  WARPLINE_PEER   address of the other guest (WARPLINE_PEER6: its IPv6 address). It echoes
                  on TCP port 7, discards what it receives on port 9, sends as fast as it
                  can on port 19, and runs the command of --peer-command.

Both are unmodified Linux kernels (Debian's package user-mode-linux) that see the files
of this machine. What they write is gone at the end, so print what you want to keep. No
privilege is needed. TCP buffers are as large as the link's bandwidth-delay product
requires, unless --sysctl sets them.

Examples:
  warpline dilate --tdf 10 --rate 1gbit --delay 20ms --peer-command 'iperf3 -s' \\
      -- sh -c 'iperf3 -c $WARPLINE_PEER -t 5'
  A shell in front of a 10 Gbit/s link that this machine could not carry:
    warpline dilate --tdf 100 --rate 10gbit --delay 40ms
  As slow as necessary, with BBR:
    warpline dilate --tdf auto --rate 2gbit --delay 5ms --cc bbr --peer-command 'iperf3 -s' \\
      -- sh -c 'iperf3 -c $WARPLINE_PEER'

Exit code: the command's; 128 plus the signal's number if a signal ended it; with
--hard-limit 1 if the emulator could not keep pace.";

/// The end of the help text.
fn examples() -> String {
    format!("{BEGINNING}\n{}\n{EXAMPLES}", values())
}

/// Run a command, or a shell, in dilated time: on Linux around a link that is faster than this machine
///
/// Starts two unmodified Linux kernels whose clocks run slower than this machine's, with a link between them of the given rate, delay,
/// loss and queue. Without a command, it starts $SHELL.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples())]
pub(crate) struct Args {
    /// Time dilation factor, such as 2.5: seconds of this machine for each second of the command; auto begins at 1 and rises until
    /// this machine can keep up
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    tdf: Tdf,
    #[command(flatten)]
    link: LinkArgs,
    /// Also run this command line (with sh -c) on the peer: a server
    #[arg(long, value_name = "COMMAND")]
    peer_command: Option<String>,
    /// The Linux kernel of both: a version, a series, a name (warpline kernel list) or a file [default: linux.uml]
    #[arg(long, value_name = "KERNEL")]
    kernel: Option<String>,
    /// Congestion control of both kernels: cubic, reno, bbr, bic, vegas, westwood and others in the package
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// A setting of both kernels, with its name in sysctl(8); may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    sysctl: Vec<(String, String)>,
    /// Share of a core for each guest, whatever the factor, such as 0.5 or 50%, 0.1% at least [default: one whole core]
    #[arg(long, value_name = "SHARE", value_parser = part)]
    cpu_share: Option<f64>,
    /// Let the instruction rdtsc read the guests' time; each reading costs as much as a system call [default: it reads the machine's]
    #[arg(long)]
    tsc: bool,
    /// Memory of each guest [default: what the link's bandwidth-delay product needs]
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Stop, with exit code 1, as soon as a packet is later than this to the guests [default: go on and count]
    #[arg(long, value_name = "TIME")]
    hard_limit: Option<Time>,
    /// Report at the end how both clocks ran, how the emulator kept pace and what the links did; also show the output of the peer's command
    #[arg(short, long)]
    verbose: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = clap::ValueHint::CommandWithArguments)]
    command: Vec<String>,
}

/// A factor, or "auto".
fn factor(text: &str) -> Result<Tdf, String> {
    match text.parse::<f64>() {
        Ok(number) if warpline_core::Tdf::new(number).is_some() => Ok(Tdf::Factor(number)),
        Ok(_) => Err(format!("the factor must be a number {}, or \"auto\"", warpline_core::Tdf::ALLOWED)),
        Err(_) => text.parse(),
    }
}

/// `name=value`.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write NAME=VALUE, for example net.ipv4.tcp_sack=0".to_owned()),
    }
}

/// Bytes that the link holds in both directions, as far as known: bandwidth times the round trip, and the larger queue.
fn in_flight([up, down]: [&LinkConfig; 2]) -> u64 {
    let rate = |link: &LinkConfig| match &link.rate {
        RateConfig::Constant(rate) => rate.as_bps(),
        _ => 0,
    };
    let rtt = (up.delay + down.delay).as_secs_f64();
    (rate(up).max(rate(down)) as f64 / 8.0 * rtt) as u64
}

/// Linux's own limits of a connection's buffers, with the other two numbers of `tcp_rmem` and `tcp_wmem`.
const BUFFERS: [(&str, u64, &str); 2] =
    [("net.ipv4.tcp_rmem", 6 << 20, "4096 131072"), ("net.ipv4.tcp_wmem", 4 << 20, "4096 16384")];
/// Memory of a guest in bytes: the least, how many times the bytes in flight must fit, and the most.
const MEMORY: (u64, u64, u64) = (256 << 20, 48, 24 << 30);

/// Memory of a guest whose link holds this many bytes.
fn memory(in_flight: u64) -> u64 {
    let (least, times, most) = MEMORY;
    times.saturating_mul(in_flight).saturating_add(least).min(most)
}

/// Settings that let one connection fill the link, for those that the user did not give.
fn settings(given: &[(String, String)], in_flight: u64) -> Vec<(String, String)> {
    // Half of a receive buffer is for overhead, and a queue of the same size may be full.
    let wanted = in_flight.saturating_mul(4);
    let own = BUFFERS.into_iter().filter(|(name, least, _)| {
        wanted > *least && given.iter().all(|(other, _)| other.replace('/', ".") != *name)
    });
    // The kernel's numbers have 31 bits.
    let value = |first: &str| format!("{first} {}", wanted.min(i32::MAX as u64));
    own.map(|(name, _, first)| (name.to_owned(), value(first))).chain(given.iter().cloned()).collect()
}

/// Searches for a command as execvp(3) does; if there is none, returns the exit code that a shell would give.
fn find(command: &str) -> Result<(), Failure> {
    let runs = |path: &Path| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let places: Vec<_> = match command.contains('/') {
        true => vec![command.into()],
        false => {
            let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
            env::split_paths(&path).map(|directory| directory.join(command)).collect()
        }
    };
    if places.iter().any(|path| runs(path)) {
        return Ok(());
    }
    Err(match places.iter().any(|path| path.exists()) {
        true => Failure::not_started(format!("cannot start \"{command}\": it is not an executable program")),
        false => Failure::no_program(format!("cannot start \"{command}\": there is no such program")),
    })
}

/// The terminal's rows and columns if the command gets it: both its input and its output must be the terminal.
fn terminal() -> Option<(u16, u16)> {
    let both = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let size = terminal_size::terminal_size_of(std::io::stdout());
    both.then(|| size.map_or((24, 80), |(width, height)| (height.0, width.0)))
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let (_, mut link) = args.link.crossing(args.hard_limit)?;
    let command = or_shell(args.command);
    find(&command[0])?;
    let directory = env::current_dir()
        .map_err(|error| Failure::run(format!("cannot find the current directory: {error}")))?;
    let in_flight = in_flight([&link.up, &link.down]);
    // What the link and its queue hold, twice.
    link.emulator.memory = link.emulator.memory.max((in_flight as usize).saturating_mul(4));
    let config = DilateConfig {
        link,
        tdf: args.tdf,
        kernel: args.kernel,
        cc: args.cc,
        sysctl: settings(&args.sysctl, in_flight),
        cpu_share: args.cpu_share,
        own_tsc: args.tsc,
        memory: args.memory.map_or_else(|| memory(in_flight), |size| size.0.0),
        command,
        peer_command: args.peer_command,
        environment: DilateConfig::environment(),
        directory,
        terminal,
        keep: false,
        verbose: args.verbose,
    };
    let mut outcome = dilate(&config).map_err(run::failure)?;
    let both = outcome.dilation.as_ref().map(|dilation| format!("  time       {}\n", dilation.line()));
    report(&mut outcome.account, &both.unwrap_or_default(), args.verbose);
    match outcome.ending {
        Some(Ending::Exited(code)) => Ok(Code::returned(code)),
        Some(Ending::Signalled(signal)) => Ok(Code::signalled(signal)),
        Some(Ending::NotStarted(why)) => Err(Failure::not_started(why)),
        Some(Ending::Stopped) | None => Ok(Code::signalled(SIGTERM)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_grow_with_the_link_and_what_is_given_stays() {
        assert!(settings(&[], 100_000).is_empty());
        let own = settings(&[], 10_000_000);
        assert_eq!(own[0], ("net.ipv4.tcp_rmem".to_owned(), "4096 131072 40000000".to_owned()));
        let given = [("net.ipv4.tcp_rmem".to_owned(), "1 2 3".to_owned())];
        let both = settings(&given, 10_000_000);
        assert_eq!((both.len(), &both[0].0[..], &both[1]), (2, "net.ipv4.tcp_wmem", &given[0]));
    }

    #[test]
    fn memory_grows_with_the_link_up_to_a_limit() {
        assert_eq!([0, 1 << 20, u64::MAX].map(memory), [256 << 20, 304 << 20, 24_u64 << 30]);
    }

    #[test]
    fn factors_and_settings_are_read_or_refused_with_what_is_allowed() {
        assert_eq!(factor("2.5"), Ok(Tdf::Factor(2.5)));
        assert_eq!(factor("auto"), Ok(Tdf::Auto));
        assert!(factor("0").unwrap_err().contains("billionth"));
        assert!(factor("fast").unwrap_err().contains("auto"));
        assert_eq!(setting("a.b = 1 2"), Ok(("a.b".to_owned(), "1 2".to_owned())));
        assert!(setting("a.b").unwrap_err().contains("NAME=VALUE"));
    }
}

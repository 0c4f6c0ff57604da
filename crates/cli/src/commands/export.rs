//! `warpline export`: the tables of a run, or of a set of seeds, for other programs.

use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::ValueHint;
use warpline_results::export::Format;
use warpline_results::qlog::{self, Form};
use warpline_results::{Export, ResultError, Run, RunSet, TableKind};

use crate::failure::{Code, Failure};

const EXAMPLES: &str = "\
Examples:
  A row per flow, as CSV on standard output:
    warpline export runs/dumbbell-1
  Throughput and windows over time, of all seeds, a row for each value:
    warpline export runs/ten-seeds --table series_flows --long --output flows.csv
  Every table of a run, as JSON, into a directory:
    warpline export runs/dumbbell-1 --table all --json --output tables/
  Into InfluxDB:
    warpline export runs/dumbbell-1 --table series_links --influx | influx write --bucket warpline
  The qlog of its flows, in the form that qvis reads:
    warpline export runs/first --qlog 0.3 --output traces/
  Into flent's plots, and into Prometheus:
    warpline export runs/dumbbell-1 --to flent --output dumbbell.flent.gz
    warpline export runs/dumbbell-1 --to openmetrics --output dumbbell.om";

/// Write tables of a run, or of several seeds, as CSV, JSON, Parquet or InfluxDB's line protocol
///
/// A set of seeds gets a column with the seed. Times count from the start of the run. The chapter Results of the book describes the columns.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// A run directory, or a directory that `warpline run --seeds` wrote
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    run: PathBuf,

    /// Table to write; may be given several times
    #[arg(short, long = "table", value_name = "TABLE", default_value = "flows", value_parser = table_names())]
    tables: Vec<String>,

    /// Comma-separated values, the default
    #[arg(long, group = "format")]
    csv: bool,

    /// An array of objects
    #[arg(long, group = "format")]
    json: bool,

    /// Apache Parquet
    #[arg(long, group = "format")]
    parquet: bool,

    /// InfluxDB's line protocol: strings and the numbers of flows and links are tags, the rest are fields
    #[arg(long, group = "format")]
    influx: bool,

    /// A format of another program, such as flent, with the whole of one run (needs the Python package)
    #[arg(long, value_name = "FORMAT", group = "format", conflicts_with = "tables")]
    to: Option<String>,

    /// The qlog of flows with record = ["qlog"]: in the form of the present drafts, as the run has it, or in that of qlog 0.3 for qvis
    #[arg(
        long, value_name = "FORM", group = "format", conflicts_with = "tables", num_args = 0..=1,
        default_missing_value = Form::Draft.name(), value_parser = Form::ALL.map(Form::name)
    )]
    qlog: Option<String>,

    /// Write a row for each value (metric, unit, value) instead of a column for each metric
    #[arg(long, conflicts_with_all = ["influx", "to", "qlog"])]
    long: bool,

    /// File to write; for several tables or traces a directory, with a file for each [default: standard output]
    #[arg(short, long, alias = "out", value_name = "FILE", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,
}

/// Stands for all tables.
const ALL: &str = "all";

fn table_names() -> clap::builder::PossibleValuesParser {
    let names = TableKind::all().into_iter().map(|kind| kind.name).chain([ALL]);
    clap::builder::PossibleValuesParser::new(names.collect::<Vec<_>>())
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    if let Some(format) = &args.to {
        return elsewhere(args, format);
    }
    if let Some(form) = Form::ALL.into_iter().find(|form| args.qlog.as_deref() == Some(form.name())) {
        return traces(args, form);
    }
    let formats = [
        (args.csv, Format::Csv),
        (args.json, Format::Json),
        (args.parquet, Format::Parquet),
        (args.influx, Format::Influx),
    ];
    let format = formats.into_iter().find(|(asked, _)| *asked).map_or(Format::Csv, |(_, format)| format);
    let wanted = |kind: &TableKind| args.tables.iter().any(|name| name == kind.name || name == ALL);
    let tables: Vec<TableKind> = TableKind::all().into_iter().filter(wanted).collect();
    let set = RunSet::open(&args.run).map_err(Failure::usage)?;
    let export = |table: &TableKind| Export { set: &set, table: table.clone(), long: args.long, format };
    match (&args.output, tables.as_slice()) {
        (None, [table]) => table_to_stdout(&export(table)),
        // Each line says which table it is from.
        (None, tables) if format == Format::Influx => {
            tables.iter().try_for_each(|table| table_to_stdout(&export(table)).map(|_| ()))?;
            Ok(Code::Success)
        }
        (None, _) => Err(Failure::usage(
            "several tables do not fit on standard output: name a directory for them with --output",
        )),
        (Some(file), [table]) if !names_directory(file) => {
            export(table).write_file(file).map_err(failure)?;
            Ok(Code::Success)
        }
        (Some(directory), tables) => {
            create(directory)?;
            for table in tables {
                let file = directory.join(format!("{}.{}", table.name, format.ending()));
                export(table).write_file(&file).map_err(failure)?;
            }
            Ok(Code::Success)
        }
    }
}

/// Writes a format that the Python package knows.
fn elsewhere(args: &Args, format: &str) -> Result<Code, Failure> {
    let mut words = vec![args.run.clone().into_os_string(), "--to".into(), format.into()];
    if let Some(file) = &args.output {
        words.extend(["--output".into(), file.clone().into_os_string()]);
    }
    crate::python::module("warpline.convert", "export", &words)
}

fn create(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).map_err(|error| {
        Failure::output(format!("cannot create the directory {}: {error}", directory.display()))
    })
}

/// Writes the qlog of a run.
/// Whether this is a directory, or is to be one, since a slash ends it.
fn names_directory(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn traces(args: &Args, form: Form) -> Result<Code, Failure> {
    let run = Run::open(&args.run).map_err(Failure::usage)?;
    let mut traces = run.recordings().map_err(failure)?;
    traces.retain(|path| path.extension().is_some_and(|ending| ending == qlog::ENDING));
    match (&args.output, traces.as_slice()) {
        (_, []) => Err(Failure::usage(format!(
            "{} has no qlog: run the scenario again with record = [\"qlog\"] in a flow",
            args.run.display()
        ))),
        (None, [trace]) => to_stdout(|out, name| qlog::export(trace, form, out, name)),
        (None, traces) => Err(Failure::usage(format!(
            "{} traces do not fit on standard output: name a directory for them with --output",
            traces.len()
        ))),
        (Some(file), [trace]) if !names_directory(file) => {
            qlog::export_file(trace, form, file).map_err(failure)?;
            Ok(Code::Success)
        }
        (Some(directory), traces) => {
            create(directory)?;
            for trace in traces {
                let name = trace.file_name().unwrap_or_default();
                qlog::export_file(trace, form, &directory.join(name)).map_err(failure)?;
            }
            Ok(Code::Success)
        }
    }
}

fn table_to_stdout(export: &Export<'_>) -> Result<Code, Failure> {
    if export.format == Format::Parquet && io::stdout().is_terminal() {
        return Err(Failure::usage("Parquet cannot go to a terminal: name a file with --output"));
    }
    to_stdout(|out, name| export.write(out, name))
}

/// Writes to standard output, whose reader may close it.
fn to_stdout(
    write: impl FnOnce(&mut BufWriter<io::Stdout>, &Path) -> Result<(), ResultError>,
) -> Result<Code, Failure> {
    let mut out = BufWriter::new(io::stdout());
    let name = Path::new("standard output");
    let written = write(&mut out, name);
    let flushed = written.and_then(|()| {
        out.flush().map_err(|source| ResultError::Io {
            action: "write",
            path: name.to_owned(),
            advice: "check where it goes",
            source,
        })
    });
    match flushed {
        // A reader that has closed the pipe is not an error.
        Err(ResultError::Io { ref source, .. }) if source.kind() == ErrorKind::BrokenPipe => {
            Ok(Code::Success)
        }
        Err(error) => Err(failure(error)),
        Ok(()) => Ok(Code::Success),
    }
}

fn failure(error: ResultError) -> Failure {
    match error {
        ResultError::Io { action: "write" | "create", .. } | ResultError::Encode { .. } => {
            Failure::output(error)
        }
        _ => Failure::usage(error),
    }
}

//! Parquet files in run directories of others: every table is read, or the file is reported as damaged.

use std::io::Write as _;
use std::path::Path;
use std::sync::Once;

use warpline_results::{
    DilationStep, FlowRow, FlowSample, LinkRow, LinkSample, PacketRow, Row, Table, TcpRow, TransferRow,
};

fn rows<R: Row>(table: &Table) {
    if let Ok(rows) = table.rows::<R>() {
        assert_eq!(rows.len(), table.num_rows());
    }
}

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    static QUIET: Once = Once::new();
    // libFuzzer stops at every panic, even at one of the Parquet library that the reader turns into an error.
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let directory = Path::new("/dev/shm");
    let mut file = if directory.is_dir() {
        tempfile::NamedTempFile::new_in(directory)
    } else {
        tempfile::NamedTempFile::new()
    }
    .expect("a file can be made");
    file.write_all(bytes).expect("a file can be written");
    match Table::read(file.path()) {
        Ok(table) => {
            rows::<FlowRow>(&table);
            rows::<TransferRow>(&table);
            rows::<LinkRow>(&table);
            rows::<FlowSample>(&table);
            rows::<LinkSample>(&table);
            rows::<TcpRow>(&table);
            rows::<PacketRow>(&table);
            rows::<DilationStep>(&table);
        }
        Err(error) => drop(error.to_string()),
    }
}

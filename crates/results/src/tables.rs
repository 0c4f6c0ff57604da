//! Tables in memory and as Parquet files: the same schemas, the same rows.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::statistics::Statistics;
use warpline_disk::{Directory, DiskFile, Open};

use crate::column::Row;
use crate::error::ResultError;

/// Rows in a Parquet row group: what a reader decodes at once, and what a writer holds (encoded) at most.
pub const ROW_GROUP_ROWS: usize = 1 << 16;
/// Rows gathered before they are turned into a record batch.
const BATCH_ROWS: usize = 1 << 13;
/// The same of a table in memory, which has no thread for that: a live run waits for it, and may be late by a tenth of a millisecond or two.
const PIECE_ROWS: usize = 1 << 9;
/// Mode of the files of a run; the umask narrows it.
pub const FILE_MODE: u32 = 0o666;
/// Batches that wait to be written, at the most.
const QUEUED_BATCHES: usize = 16;

/// A table: record batches of one schema.
#[derive(Clone, Debug)]
pub struct Table {
    /// The columns.
    pub schema: SchemaRef,
    /// The rows, in order.
    pub batches: Vec<RecordBatch>,
}

impl Table {
    /// The table of these rows.
    ///
    /// # Errors
    /// Passes on Arrow's own checks, which hold for every row type here.
    pub fn of<R: Row>(rows: &[R]) -> Result<Table, ResultError> {
        let batches = rows
            .chunks(ROW_GROUP_ROWS)
            .map(R::batch)
            .collect::<Result<_, _>>()
            .map_err(|error| encode_error(Path::new(R::TABLE), &error))?;
        Ok(Table { schema: R::schema(), batches })
    }

    /// How many rows there are.
    pub fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// All rows, typed.
    ///
    /// # Errors
    /// Says which column is missing or of another type.
    pub fn rows<R: Row>(&self) -> Result<Vec<R>, String> {
        let mut rows = Vec::with_capacity(self.num_rows());
        for batch in &self.batches {
            rows.extend(R::read(batch)?);
        }
        Ok(rows)
    }

    /// Reads a Parquet file.
    ///
    /// # Errors
    /// If it cannot be opened, or is not Parquet.
    pub fn read(path: &Path) -> Result<Table, ResultError> {
        let Some(reader) = BatchReader::open(path, &[], ROW_GROUP_ROWS)? else {
            return Err(ResultError::io("read", path, io::ErrorKind::NotFound.into()));
        };
        let schema = Arc::clone(&reader.schema);
        Ok(Table { schema, batches: reader.collect::<Result<_, _>>()? })
    }
}

/// Reads a Parquet file batch by batch: the one place where a run's tables are read from.
#[derive(Debug)]
pub struct BatchReader {
    path: PathBuf,
    schema: SchemaRef,
    batches: ParquetRecordBatchReader,
}

impl BatchReader {
    /// Opens the file for the columns in `wanted` (all when empty; names that it does not have are passed over), in batches of
    /// at most `rows`. None when there is no such file.
    ///
    /// # Errors
    /// If it cannot be read, or is not Parquet.
    pub fn open(path: &Path, wanted: &[&str], rows: usize) -> Result<Option<Self>, ResultError> {
        let Some(builder) = Self::builder(path)? else { return Ok(None) };
        let mask = if wanted.is_empty() {
            ProjectionMask::all()
        } else {
            ProjectionMask::columns(builder.parquet_schema(), wanted.iter().copied())
        };
        let schema = Arc::clone(builder.schema());
        let batches = guarded(path, || builder.with_projection(mask).with_batch_size(rows).build())?;
        Ok(Some(BatchReader { path: path.to_owned(), schema, batches }))
    }

    /// Opens the file; none when there is no such file.
    fn builder(path: &Path) -> Result<Option<ParquetRecordBatchReaderBuilder<File>>, ResultError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ResultError::io("read", path, error)),
        };
        guarded(path, || ParquetRecordBatchReaderBuilder::try_new(file)).map(Some)
    }

    /// As [`open`](Self::open), for rows in which `column`, a whole number in whose order they are, is at least `from`. Parts of the file in which it is
    /// above `to` are left out, but rows with more can come at the end.
    ///
    /// # Errors
    /// As there.
    pub fn open_between(
        path: &Path,
        rows: usize,
        column: &str,
        (from, to): (u64, u64),
    ) -> Result<Option<Self>, ResultError> {
        let Some(builder) = Self::builder(path)? else { return Ok(None) };
        let groups = builder.metadata().row_groups();
        let may_be_in = |group: &RowGroupMetaData| {
            let own = group.columns().iter().find(|own| own.column_path().string() == column);
            let Some(Statistics::Int64(range)) = own.and_then(|own| own.statistics()) else { return true };
            // Parquet keeps unsigned numbers in signed ones.
            let bound = |value: Option<&i64>| value.map(|value| value.cast_unsigned());
            bound(range.min_opt()).is_none_or(|least| least <= to)
                && bound(range.max_opt()).is_none_or(|most| most >= from)
        };
        let wanted: Vec<usize> = (0..groups.len()).filter(|&number| may_be_in(&groups[number])).collect();
        let before = wanted.first().map(|&first| Self::rows_before(path, first, column, from)).transpose()?;
        let schema = Arc::clone(builder.schema());
        let part = builder.with_row_groups(wanted).with_offset(before.unwrap_or_default());
        let batches = guarded(path, || part.with_batch_size(rows).build())?;
        Ok(Some(BatchReader { path: path.to_owned(), schema, batches }))
    }

    /// How many rows of a row group come before the first in which `column` is at least `from`. Only that column is decoded.
    fn rows_before(path: &Path, group: usize, column: &str, from: u64) -> Result<usize, ResultError> {
        let Some(builder) = Self::builder(path)? else { return Ok(0) };
        let mask = ProjectionMask::columns(builder.parquet_schema(), [column]);
        let schema = Arc::clone(builder.schema());
        let part = builder.with_row_groups(vec![group]).with_projection(mask);
        let batches = guarded(path, || part.with_batch_size(BATCH_ROWS).build())?;
        let mut before = 0;
        for batch in (BatchReader { path: path.to_owned(), schema, batches }) {
            let batch = batch?;
            let Some(values) = batch.columns().first().and_then(|own| own.as_primitive_opt::<UInt64Type>())
            else {
                return Ok(0);
            };
            let own = values.values().partition_point(|value| *value < from);
            before += own;
            if own < values.len() {
                break;
            }
        }
        Ok(before)
    }

    /// How many rows a file has; none when there is no such file.
    ///
    /// # Errors
    /// As those of [`open`](Self::open).
    pub fn rows_of(path: &Path) -> Result<Option<u64>, ResultError> {
        let Some(builder) = Self::builder(path)? else { return Ok(None) };
        Ok(Some(builder.metadata().file_metadata().num_rows().cast_unsigned()))
    }

    /// All columns of the file, whichever are read.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ResultError>;

    fn next(&mut self) -> Option<Self::Item> {
        guarded(&self.path, || self.batches.next().transpose()).transpose()
    }
}

/// Lets the Parquet library work on a file that may be damaged: it panics on some of what it finds there.
fn guarded<T, E: std::fmt::Display>(
    path: &Path,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, ResultError> {
    let why = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the Parquet library cannot read it".to_owned(),
    };
    Err(ResultError::Damaged { path: path.to_owned(), why })
}

/// An error of Arrow or Parquet while writing `path`; a system error inside it is brought to light.
fn encode_error(path: &Path, error: &(dyn std::error::Error + 'static)) -> ResultError {
    let mut source = Some(error);
    while let Some(cause) = source {
        let inner = match cause.downcast_ref::<ParquetError>() {
            Some(ParquetError::External(inner)) => Some(&**inner as &(dyn std::error::Error + 'static)),
            _ => None,
        };
        if let Some(system) = inner.unwrap_or(cause).downcast_ref::<io::Error>() {
            let copy = system.raw_os_error().map_or_else(
                || io::Error::new(system.kind(), system.to_string()),
                io::Error::from_raw_os_error,
            );
            return ResultError::io("write", path, copy);
        }
        source = cause.source();
    }
    ResultError::Encode { path: path.to_owned(), why: error.to_string() }
}

/// Where rows of one table go while a run is under way: a Parquet file, or memory.
#[derive(Debug)]
pub(crate) struct TableSink<R: Row> {
    pending: Vec<R>,
    target: Target<R>,
}

#[derive(Debug)]
enum Target<R: Row> {
    /// Whole batches, and pieces of the next one.
    Memory {
        batches: Vec<RecordBatch>,
        pieces: Vec<RecordBatch>,
    },
    File(FileWriter<R>),
}

impl<R: Row + 'static> TableSink<R> {
    /// Rows are kept.
    pub(crate) fn memory() -> Self {
        TableSink { pending: Vec::new(), target: Target::Memory { batches: Vec::new(), pieces: Vec::new() } }
    }

    /// Rows go to `TABLE.parquet` in the directory.
    pub(crate) fn file(at: &impl Directory, directory: &Path) -> Result<Self, ResultError> {
        Ok(TableSink { pending: Vec::new(), target: Target::File(FileWriter::create(at, directory)?) })
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: R) -> Result<(), ResultError> {
        self.pending.push(row);
        let most = if matches!(self.target, Target::Memory { .. }) { PIECE_ROWS } else { BATCH_ROWS };
        if self.pending.len() >= most { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ResultError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        match &mut self.target {
            Target::Memory { batches, pieces } => {
                let piece = R::batch(&self.pending);
                self.pending.clear();
                pieces.push(piece.map_err(|error| encode_error(Path::new(R::TABLE), &error))?);
                if pieces.len() >= BATCH_ROWS / PIECE_ROWS {
                    batches.push(whole::<R>(pieces)?);
                }
                Ok(())
            }
            Target::File(writer) => writer.write(std::mem::take(&mut self.pending)),
        }
    }

    /// Writes what is pending and brings the file safely to disk.
    pub(crate) fn close(mut self) -> Result<Table, ResultError> {
        self.flush()?;
        match self.target {
            Target::Memory { mut batches, mut pieces } => {
                if !pieces.is_empty() {
                    batches.push(whole::<R>(&mut pieces)?);
                }
                Ok(Table { schema: R::schema(), batches })
            }
            Target::File(writer) => {
                writer.close()?;
                Ok(Table { schema: R::schema(), batches: Vec::new() })
            }
        }
    }
}

/// One batch of all pieces, which are used up.
fn whole<R: Row>(pieces: &mut Vec<RecordBatch>) -> Result<RecordBatch, ResultError> {
    let batch = arrow_select::concat::concat_batches(&R::schema(), pieces.iter());
    pieces.clear();
    batch.map_err(|error| encode_error(Path::new(R::TABLE), &error))
}

/// A Parquet file with a thread that writes it: whoever makes the rows is not kept waiting while they are encoded and compressed (a
/// live run would be late by milliseconds), unless the disk is too slow for a long time.
#[derive(Debug)]
struct FileWriter<R: Row> {
    path: PathBuf,
    /// None once there is nothing more to come.
    rows: Option<SyncSender<Vec<R>>>,
    thread: Option<JoinHandle<Result<(), ResultError>>>,
}

impl<R: Row + 'static> FileWriter<R> {
    /// Makes the file, and the thread: now, and not when there are rows, so that it has the precedence of an ordinary thread.
    fn create(at: &impl Directory, directory: &Path) -> Result<Self, ResultError> {
        let path = directory.join(format!("{}.parquet", R::TABLE));
        let file =
            at.open(&path, Open::New(FILE_MODE)).map_err(|error| ResultError::io("create", &path, error))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_created_by(concat!("warpline ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(BufWriter::new(file), R::schema(), Some(properties))
            .map_err(|error| encode_error(&path, &error))?;
        let (sender, receiver) = sync_channel(QUEUED_BATCHES);
        let own = path.clone();
        let thread = thread::Builder::new()
            .name(format!("write {}", R::TABLE))
            .spawn(move || Self::run(&own, writer, &receiver))
            .map_err(|error| ResultError::io("start a thread to write", &path, error))?;
        Ok(FileWriter { path, rows: Some(sender), thread: Some(thread) })
    }

    /// The thread: writes what comes, until nothing more does.
    fn run<F: DiskFile>(
        path: &Path,
        mut writer: ArrowWriter<BufWriter<F>>,
        rows: &Receiver<Vec<R>>,
    ) -> Result<(), ResultError> {
        for rows in rows {
            let batch = R::batch(&rows).map_err(|error| encode_error(path, &error))?;
            writer.write(&batch).map_err(|error| encode_error(path, &error))?;
        }
        let buffered = writer.into_inner().map_err(|error| encode_error(path, &error))?;
        finish_file(path, buffered)
    }

    fn write(&mut self, rows: Vec<R>) -> Result<(), ResultError> {
        match self.rows.as_ref().map(|sender| sender.send(rows)) {
            Some(Ok(())) => Ok(()),
            // The thread has ended early, and says why.
            _ => self.finish(),
        }
    }

    fn close(mut self) -> Result<(), ResultError> {
        self.finish()
    }
}

impl<R: Row> FileWriter<R> {
    /// Waits for everything to be written.
    fn finish(&mut self) -> Result<(), ResultError> {
        self.rows = None;
        let failed = || ResultError::Encode {
            path: self.path.clone(),
            why: "the thread that wrote it has failed".to_owned(),
        };
        self.thread
            .take()
            .map_or_else(|| Err(failed()), |thread| thread.join().unwrap_or_else(|_| Err(failed())))
    }
}

impl<R: Row> Drop for FileWriter<R> {
    fn drop(&mut self) {
        // A run that failed: the directory is about to be removed.
        if self.thread.is_some() {
            let _ = self.finish();
        }
    }
}

/// Flushes a file's buffer and brings the file to disk.
pub(crate) fn finish_file(path: &Path, mut buffered: BufWriter<impl DiskFile>) -> Result<(), ResultError> {
    buffered.flush().map_err(|error| ResultError::io("write", path, error))?;
    buffered.get_ref().sync().map_err(|error| ResultError::io("write", path, error))
}

/// Writes a whole table to `TABLE.parquet` in the directory.
pub(crate) fn write_table<R: Row + Clone + 'static>(
    at: &impl Directory,
    directory: &Path,
    rows: &[R],
) -> Result<(), ResultError> {
    let mut sink = TableSink::file(at, directory)?;
    for row in rows {
        sink.push(row.clone())?;
    }
    sink.close().map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::LinkSample;

    #[test]
    fn rows_in_memory_are_gathered_in_small_pieces_and_become_large_batches() {
        let mut sink = TableSink::memory();
        let rows = 2 * BATCH_ROWS + PIECE_ROWS + 1;
        for row in 0..rows {
            sink.push(LinkSample { time_s: row as f64, ..LinkSample::default() }).unwrap();
            assert!(sink.pending.len() < PIECE_ROWS);
        }
        let table = sink.close().unwrap();
        assert_eq!(
            table.batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(),
            [BATCH_ROWS, BATCH_ROWS, PIECE_ROWS + 1]
        );
        let read = table.rows::<LinkSample>().unwrap();
        assert!(read.iter().map(|row| row.time_s).eq((0..rows).map(|row| row as f64)));
    }

    #[test]
    fn a_full_disk_is_told_as_such_with_the_file_and_advice() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = encode_error(Path::new("runs/first/tcp.parquet"), &ParquetError::from(full)).to_string();
        assert!(error.starts_with("cannot write runs/first/tcp.parquet: "), "{error}");
        assert!(error.contains("free some space"), "{error}");
    }
}

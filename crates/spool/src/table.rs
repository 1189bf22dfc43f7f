//! A table as a Parquet file: written whole, read by the names of its columns. A column that the
//! file does not have keeps its default, and one that we do not know is left alone.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::statistics::Statistics;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};

use crate::Table;
use crate::chunk::Chunks;
use crate::column::{Cell, Kind, Row, Text};
use crate::values::Values;

/// Rows of a row group, whose values are in memory together while it is written.
const ROW_GROUP: usize = 1 << 13;
/// Rows between two steps: as many as are in the cache together.
const STEP: usize = 128;
/// Rows of a row group that a reader accepts: beyond it a file is not ours, or damaged.
const MAX_ROWS: i64 = 1 << 24;

fn field(name: &str, kind: Kind) -> Result<TypePtr> {
    let (physical, logical) = match kind {
        Kind::Integer => (Physical::INT64, None),
        Kind::Time => {
            let time = LogicalType::timestamp(true, TimeUnit::MICROS);
            (Physical::INT64, Some(time))
        }
        Kind::Real => (Physical::DOUBLE, None),
        Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let field = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical);
    Ok(Arc::new(field.build()?))
}

fn schema<T: Row>() -> Result<TypePtr> {
    let fields: Result<Vec<TypePtr>> = T::columns().iter().map(|c| field(c.name, c.kind)).collect();
    Ok(Arc::new(Type::group_type_builder("transom").with_fields(fields?).build()?))
}

fn properties(metadata: &[(&str, String)]) -> WriterProperties {
    let pairs = metadata.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone()));
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("transom ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(pairs.collect()))
        .build()
}

/// Writes rows as one Parquet file; returns how many bytes it has. `step` is called after every
/// few hundred rows and each column, for callers that spread the work over time.
///
/// # Errors
/// Of `to`.
pub fn write<T: Row, W: Write + Send>(
    to: W,
    rows: impl IntoIterator<Item = T>,
    metadata: &[(&str, String)],
    step: &mut dyn FnMut(),
) -> Result<u64> {
    written(to, rows, metadata, step).map_err(as_the_disk_said)
}

/// Without the word that the writer of Parquet puts before an error of the disk.
fn as_the_disk_said(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<ParquetError>() {
        Ok(ParquetError::External(cause)) => match cause.downcast::<io::Error>() {
            Ok(cause) => anyhow::Error::new(*cause),
            Err(cause) => anyhow::Error::new(ParquetError::External(cause)),
        },
        Ok(error) => anyhow::Error::new(error),
        Err(error) => error,
    }
}

fn written<T: Row, W: Write + Send>(
    to: W,
    rows: impl IntoIterator<Item = T>,
    metadata: &[(&str, String)],
    step: &mut dyn FnMut(),
) -> Result<u64> {
    let mut writer = SerializedFileWriter::new(to, schema::<T>()?, Arc::new(properties(metadata)))?;
    let descriptions = writer.schema_descr().columns().to_vec();
    let mut rows = rows.into_iter();
    let mut values: Vec<Values> = T::columns().iter().map(|_| Values::default()).collect();
    let mut chunks = Chunks::new()?;
    while take_apart(&mut rows, &mut values, step) > 0 {
        let mut out = writer.next_row_group()?;
        for ((column, described), values) in T::columns().iter().zip(&descriptions).zip(&mut values)
        {
            let (bytes, close) = chunks.of(described.clone(), column.kind, values)?;
            out.append_column(&bytes, close)?;
            values.clear();
            step();
        }
        out.close()?;
    }
    writer.finish()?;
    Ok(writer.bytes_written() as u64)
}

/// The values of as many rows as make a row group; returns how many there were. Few rows are whole
/// at a time, so that they stay in the cache until all their columns are taken.
fn take_apart<T: Row>(
    rows: &mut impl Iterator<Item = T>,
    values: &mut [Values],
    step: &mut dyn FnMut(),
) -> usize {
    let mut some: Vec<T> = Vec::with_capacity(STEP);
    let mut taken = 0;
    while taken < ROW_GROUP {
        some.clear();
        some.extend(rows.by_ref().take(STEP));
        for (column, values) in T::columns().iter().zip(&mut *values) {
            (column.collect)(&some, values);
        }
        taken += some.len();
        step();
        if some.len() < STEP {
            break;
        }
    }
    taken
}

/// What a file says of itself under this key.
fn said<R: ChunkReader + 'static>(file: R, key: &str) -> Option<String> {
    said_in(&SerializedFileReader::new(file).ok()?, key)
}

fn said_in<R: ChunkReader + 'static>(
    reader: &SerializedFileReader<R>,
    key: &str,
) -> Option<String> {
    let pairs = reader.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.clone()
}

/// Which table of the agent's a file has; `None` if it is another file.
pub fn table_of<R: ChunkReader + 'static>(file: R) -> Option<Table> {
    let name = said(file, TABLE)?;
    Table::ALL.iter().copied().find(|table| table.name() == name)
}

/// The key of a file's metadata that says which table it has.
pub const TABLE: &str = "transom.table";
/// And the one that says which version wrote it.
pub const VERSION: &str = "transom.version";
/// And the one that says in which boot of the kernel its rows came, 32 hexadecimal digits.
pub const BOOT: &str = "transom.boot";

/// The boot in which the rows of a file came.
pub fn boot_of<R: ChunkReader + 'static>(file: R) -> Option<String> {
    said(file, BOOT)
}

/// The version that wrote a file, if it is a later one than this: what is new in it is not known
/// here.
pub fn later_version<R: ChunkReader + 'static>(file: R) -> Option<String> {
    let version = said(file, VERSION)?;
    let numbers = |text: &str| -> Option<Vec<u64>> {
        text.split('.').map(|part| part.parse().ok()).collect()
    };
    let is_later = numbers(&version)? > numbers(env!("CARGO_PKG_VERSION"))?;
    is_later.then_some(version)
}

/// Reads all rows of a file.
///
/// # Errors
/// It is no Parquet file, is cut, or a column that we know has another type.
pub fn read<T: Row, R: ChunkReader + 'static>(from: R) -> Result<Vec<T>> {
    read_having(from, None)
}

/// The same of those row groups that may have this value in this column, by their statistics.
///
/// # Errors
/// As [`read`].
pub fn read_having<T: Row, R: ChunkReader + 'static>(
    from: R,
    wanted: Option<(&str, i64)>,
) -> Result<Vec<T>> {
    let file = SerializedFileReader::new(from)?;
    let mut rows = Vec::new();
    for number in 0..file.num_row_groups() {
        let group = file.get_row_group(number)?;
        if wanted.is_none_or(|(column, value)| may_have(group.metadata(), column, value)) {
            read_group(&*group, &mut rows)?;
        }
    }
    if let Some(boot) = said_in(&file, BOOT).map(Text::from) {
        rows.iter_mut().for_each(|row: &mut T| row.put_boot(&boot));
    }
    Ok(rows)
}

fn may_have(group: &RowGroupMetaData, column: &str, value: i64) -> bool {
    let mut columns = group.columns().iter();
    let chunk = columns.find(|chunk| chunk.column_path().string() == column);
    match chunk.and_then(|chunk| chunk.statistics()) {
        Some(Statistics::Int64(of)) => {
            let (least, most) = (of.min_opt(), of.max_opt());
            least.is_none_or(|least| *least <= value) && most.is_none_or(|most| value <= *most)
        }
        _ => true,
    }
}

fn read_group<T: Row>(group: &dyn RowGroupReader, rows: &mut Vec<T>) -> Result<()> {
    let count = group.metadata().num_rows();
    ensure!((0..=MAX_ROWS).contains(&count), "a row group of {count} rows is none of ours");
    let first = rows.len();
    rows.resize_with(first + count as usize, T::default);
    for (number, described) in group.metadata().schema_descr().columns().iter().enumerate() {
        let Some(column) = T::columns().iter().find(|column| column.name == described.name())
        else {
            continue;
        };
        let cells = read_column(group.get_column_reader(number)?, count as usize)
            .with_context(|| format!("column {}", column.name))?;
        for (row, cell) in rows[first..].iter_mut().zip(cells) {
            (column.put)(row, cell);
        }
    }
    Ok(())
}

fn read_column(reader: ColumnReader, count: usize) -> Result<Vec<Cell>> {
    let mut levels = Vec::with_capacity(count);
    macro_rules! values {
        ($reader:ident, $cell:expr) => {{
            let mut reader = $reader;
            let mut values = Vec::with_capacity(count);
            while levels.len() < count {
                let (records, ..) = reader.read_records(
                    count - levels.len(),
                    Some(&mut levels),
                    None,
                    &mut values,
                )?;
                ensure!(records > 0, "it ends before its rows do");
            }
            let mut values = values.into_iter().map($cell);
            levels
                .iter()
                .map(|&level| if level > 0 { values.next() } else { Some(Cell::Null) })
                .collect()
        }};
    }
    let cells: Option<Vec<Cell>> = match reader {
        ColumnReader::Int64ColumnReader(reader) => values!(reader, Cell::Integer),
        ColumnReader::DoubleColumnReader(reader) => values!(reader, Cell::Real),
        ColumnReader::ByteArrayColumnReader(reader) => {
            values!(reader, |bytes: ByteArray| {
                Cell::Text(String::from_utf8_lossy(bytes.data()).into())
            })
        }
        _ => bail!("its type is none that the agent writes"),
    };
    cells.context("fewer values than rows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, Decision, Ended, RowKind};
    use proptest::prelude::*;

    fn there_and_back(rows: &[Connection]) -> (Vec<Connection>, u64) {
        let mut file = tempfile::tempfile().unwrap();
        let bytes =
            write(&mut file, rows.to_vec(), &[("transom.table", "connections".into())], &mut || ())
                .unwrap();
        (read(file).unwrap(), bytes)
    }

    fn row(n: u32) -> Connection {
        Connection {
            time: crate::column::Time(1_800_000_000_000_000 + i64::from(n) * 731),
            kind: RowKind::ALL[n as usize % 3],
            cookie: u64::from(n) + 77,
            program: (!n.is_multiple_of(4)).then(|| "curl".into()),
            duration_us: (!n.is_multiple_of(5)).then_some(u64::from(n) * 1001),
            ended: Ended::ALL[n as usize % Ended::ALL.len()],
            remote_tag: Some(u64::MAX - u64::from(n)),
            verdict_share: f64::from(n) / 7.0,
            ..Connection::default()
        }
    }

    #[test]
    fn a_full_disk_is_told_in_its_own_words() {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let error = write(full, vec![row(1)], &[], &mut || ()).unwrap_err();
        assert_eq!(format!("{error:#}"), "No space left on device (os error 28)");
        let cause = error.downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn an_empty_table_is_a_file_too() {
        assert_eq!(there_and_back(&[]).0, []);
    }

    #[test]
    fn rows_of_several_groups_come_back_as_they_were() {
        let rows: Vec<Connection> = (0..2 * ROW_GROUP as u32 + 3).map(row).collect();
        assert_eq!(there_and_back(&rows).0, rows);
    }

    #[test]
    fn what_the_rows_are_is_in_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        write(&mut file, vec![Decision::default()], &[(TABLE, "decisions".into())], &mut || ())
            .unwrap();
        assert_eq!(table_of(file), Some(Table::Decisions));
        assert_eq!(table_of(bytes::Bytes::from("PAR1 and nothing else")), None);
    }

    #[test]
    fn only_row_groups_that_may_have_a_value_are_read() {
        let rows = |range: std::ops::Range<u64>| {
            range.map(|cookie| Connection { cookie, ..Connection::default() })
        };
        let mut bytes = Vec::new();
        write(&mut bytes, rows(0..ROW_GROUP as u64 + 10), &[], &mut || ()).unwrap();
        let found = |cookie: i64| -> Vec<u64> {
            let from = bytes::Bytes::from(bytes.clone());
            let found: Vec<Connection> = read_having(from, Some(("cookie", cookie))).unwrap();
            found.iter().map(|row| row.cookie).collect()
        };
        let first = ROW_GROUP as u64;
        assert_eq!(found(ROW_GROUP as i64 + 3), (first..first + 10).collect::<Vec<_>>());
        assert_eq!((found(3).len(), found(-1).len()), (ROW_GROUP, 0));
    }

    #[test]
    fn a_table_read_as_another_keeps_only_what_both_have() {
        let mut file = tempfile::tempfile().unwrap();
        write(&mut file, vec![row(9)], &[], &mut || ()).unwrap();
        let read: Vec<Decision> = read(file).unwrap();
        assert_eq!((read[0].cookie, read[0].cwnd), (86, 0));
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_an_error_and_no_panic(cut in 0usize..4000, at in 0usize..4000, to: u8) {
            let mut bytes = Vec::new();
            write(&mut bytes, (0..50).map(row), &[], &mut || ()).unwrap();
            let place = at % bytes.len();
            bytes[place] = to;
            bytes.truncate(bytes.len().saturating_sub(cut % 100));
            let _ = read::<Connection, _>(bytes::Bytes::from(bytes));
        }
    }
}

//! Whether all values of a file can be read. A page that a disk has spoilt would land as it is, and
//! no engine answers a question about an hour with such an object.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use parquet::basic::LogicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use transom_trace::guarded;

/// Values that are held at a time.
const AT_ONCE: usize = 8192;

/// # Errors
/// Some cannot; the message names the column.
pub fn check(file: &Bytes) -> Result<()> {
    guarded::call(|| check_all(file))
}

fn check_all(file: &Bytes) -> Result<()> {
    let file = SerializedFileReader::new(file.clone())?;
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group)?;
        for column in 0..group.num_columns() {
            let name = || group.metadata().column(column).column_path().string();
            check_column(&*group, column)
                .with_context(|| format!("its column {} is corrupt", name()))?;
        }
    }
    Ok(())
}

fn check_column(group: &dyn RowGroupReader, column: usize) -> Result<()> {
    let described = group.metadata().column(column);
    let is_text = described.column_descr().logical_type_ref() == Some(&LogicalType::String);
    let of_text = |bytes: &ByteArray| !is_text || std::str::from_utf8(bytes.data()).is_ok();
    let rows = usize::try_from(group.metadata().num_rows()).context("fewer rows than none")?;
    match group.get_column_reader(column)? {
        ColumnReader::Int64ColumnReader(of) => check_values(of, rows, |_| true),
        ColumnReader::DoubleColumnReader(of) => check_values(of, rows, |_| true),
        ColumnReader::ByteArrayColumnReader(of) => check_values(of, rows, of_text),
        ColumnReader::BoolColumnReader(of) => check_values(of, rows, |_| true),
        ColumnReader::Int32ColumnReader(of) => check_values(of, rows, |_| true),
        ColumnReader::FloatColumnReader(of) => check_values(of, rows, |_| true),
        ColumnReader::FixedLenByteArrayColumnReader(of) => check_values(of, rows, |_| true),
        // Nobody has written it for years.
        ColumnReader::Int96ColumnReader(_) => Ok(()),
    }
}

fn check_values<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: usize,
    is_good: impl Fn(&T::T) -> bool,
) -> Result<()> {
    let (mut defined, mut repeated, mut values) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = 0;
    while seen < rows {
        defined.clear();
        repeated.clear();
        values.clear();
        let at_once = AT_ONCE.min(rows - seen);
        let (records, ..) =
            reader.read_records(at_once, Some(&mut defined), Some(&mut repeated), &mut values)?;
        ensure!(records > 0, "it ends before its rows do");
        ensure!(values.iter().all(&is_good), "it has text that is none");
        seen += records;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::LazyLock;
    use transom_spool::{Connection, TABLE, Time, read, write};

    fn file(rows: u64) -> Bytes {
        let row = |n: u64| Connection {
            time: Time(1_800_000_000_000_000 + (n * n % 9973) as i64),
            cookie: n * 7919 % 10_007,
            program: Some(["curl", "nginx"][n as usize % 2].into()),
            ..Connection::default()
        };
        let mut file = Vec::new();
        write(&mut file, (0..rows).map(row), &[(TABLE, "connections".into())], &mut || ()).unwrap();
        file.into()
    }

    #[test]
    fn what_the_agent_writes_is_whole() {
        // More than one row group.
        check(&file(20_000)).unwrap();
        check(&file(0)).unwrap();
    }

    #[test]
    fn a_page_that_cannot_be_unpacked_is_named_by_its_column() {
        let mut spoilt = file(20_000).to_vec();
        spoilt[100..400].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 37) as u8);
        let refusal = check(&spoilt.into()).unwrap_err().to_string();
        assert_eq!(refusal, "its column time is corrupt");
    }

    proptest! {
        #[test]
        fn what_is_found_whole_can_be_read(at in 0usize..100_000, length in 1usize..64, to: u8) {
            static WHOLE: LazyLock<Bytes> = LazyLock::new(|| file(100));
            let mut spoilt = WHOLE.to_vec();
            let footer = spoilt.len() - 8;
            let size: [u8; 4] = spoilt[footer..footer + 4].try_into().unwrap();
            let pages = footer - u32::from_le_bytes(size) as usize;
            let at = at % (pages - length);
            spoilt[at..at + length].fill(to);
            let spoilt = Bytes::from(spoilt);
            if check(&spoilt).is_ok() {
                prop_assert!(read::<Connection, _>(spoilt).is_ok());
            }
        }
    }
}

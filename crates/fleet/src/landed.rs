//! A file of a spool as it lands in object storage: first who the host is and which boot of it
//! (`host`, `boot`), then all columns of the file, byte for byte as the agent wrote them. What a
//! newer agent added is among them.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter};
use parquet::data_type::ByteArray;
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use transom_spool::TABLE;

use crate::events;

/// The columns that come first.
pub const HOST: &str = "host";
pub const BOOT: &str = "boot";

/// The key of a file's metadata that says how its tables are to be read. It changes when a column
/// changes its meaning, which has not happened; columns that are added do not change it.
pub const FORMAT: &str = "transom.format";
pub const FORMAT_VERSION: u32 = 1;

/// Whose rows they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub host: String,
    /// 32 hexadecimal digits.
    pub boot: String,
}

/// What became of a file.
pub struct Landed {
    pub bytes: Bytes,
    pub rows: u64,
}

fn pairs(metadata: &ParquetMetaData) -> Vec<KeyValue> {
    metadata.file_metadata().key_value_metadata().cloned().unwrap_or_default()
}

/// Adds the two columns. The same file and identity always make the same bytes.
///
/// # Errors
/// It is no Parquet file, is damaged, or its format is from the future.
pub fn land(file: &Bytes, identity: &Identity) -> Result<Landed> {
    let metadata = ParquetMetaDataReader::new().parse_and_finish(file)?;
    let pairs = pairs(&metadata);
    let format = newest_format(&pairs);
    check_format(&pairs, format)?;
    let described = metadata.file_metadata().schema_descr();
    let root = described.root_schema();
    let kept = kept(root);
    // A column that is nested has more than one leaf, and a chunk for each.
    let chunks = (0..described.num_columns())
        .filter(|&leaf| kept.contains(&described.get_column_root_idx(leaf)));
    let chunks: Vec<usize> = chunks.collect();
    let mut writer = SerializedFileWriter::new(
        Vec::new(),
        schema(root, &kept)?,
        Arc::new(properties(pairs, format, metadata.file_metadata().created_by())?),
    )?;
    for group in metadata.row_groups() {
        let mut out = writer.next_row_group()?;
        let rows = usize::try_from(group.num_rows()).context("fewer rows than none")?;
        for value in [&identity.host, &identity.boot] {
            write_constant(&mut out, value, rows)?;
        }
        for &chunk in &chunks {
            let close = close_of(group, chunk, file.len() as u64)?;
            out.append_column(file, close)?;
        }
        out.close()?;
    }
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    Ok(Landed { bytes: writer.into_inner()?.into(), rows })
}

fn value<'a>(pairs: &'a [KeyValue], key: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

/// Recorded events have the format of traces, and its number.
fn newest_format(pairs: &[KeyValue]) -> u32 {
    let is_of_events = value(pairs, TABLE) == Some(events::NAME);
    if is_of_events { events::FORMAT_VERSION } else { FORMAT_VERSION }
}

fn check_format(pairs: &[KeyValue], newest: u32) -> Result<()> {
    let Some(version) = value(pairs, FORMAT) else { return Ok(()) };
    ensure!(
        version.parse::<u32>().is_ok_and(|version| version <= newest),
        "its format is {version}, and this program knows {newest}: install a newer transom-fleet"
    );
    Ok(())
}

/// The columns of the file by their place, but those that `host` and `boot` take the place of: the
/// agent's own table has had `boot` all along.
fn kept(root: &Type) -> Vec<usize> {
    let fields = root.get_fields();
    let of = |&n: &usize| ![HOST, BOOT].contains(&fields[n].name());
    (0..fields.len()).filter(of).collect()
}

fn schema(root: &Type, kept: &[usize]) -> Result<TypePtr> {
    let text = |name| {
        let builder = Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(LogicalType::String));
        builder.build().map(Arc::new)
    };
    let mut fields = vec![text(HOST)?, text(BOOT)?];
    fields.extend(kept.iter().map(|&n| root.get_fields()[n].clone()));
    Ok(Arc::new(Type::group_type_builder(root.name()).with_fields(fields).build()?))
}

fn properties(
    mut pairs: Vec<KeyValue>,
    format: u32,
    created_by: Option<&str>,
) -> Result<WriterProperties> {
    // One describes columns to Arrow, one is of all bytes: neither knows of the two columns that come
    // first.
    pairs.retain(|pair| {
        !["ARROW:schema", FORMAT, transom_trace::CHECKSUM].contains(&pair.key.as_str())
    });
    pairs.push(KeyValue::new(FORMAT.to_owned(), format.to_string()));
    Ok(WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(created_by.unwrap_or("transom").to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(pairs))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .build())
}

fn write_constant(
    out: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    value: &str,
    rows: usize,
) -> Result<()> {
    let mut writer = out.next_column()?.context("a column too few")?;
    let ColumnWriter::ByteArrayColumnWriter(to) = writer.untyped() else {
        bail!("text is no text any more");
    };
    to.write_batch(&vec![ByteArray::from(value); rows], Some(&vec![1; rows]), None)?;
    Ok(writer.close()?)
}

/// A column chunk as if it had just been written.
fn close_of(group: &RowGroupMetaData, leaf: usize, length: u64) -> Result<ColumnCloseResult> {
    let chunk = group.columns().get(leaf).context("a row group lacks a column")?;
    let (begin, bytes) = chunk.byte_range();
    ensure!(begin.checked_add(bytes).is_some_and(|end| end <= length), "it is cut");
    Ok(ColumnCloseResult {
        bytes_written: bytes,
        rows_written: u64::try_from(group.num_rows()).unwrap_or(0),
        metadata: chunk.clone(),
        bloom_filter: None,
        // A column of a row group of ours is one page: its statistics are those of the chunk.
        column_index: None,
        offset_index: None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use proptest::prelude::*;
    use transom_spool::{AgentRow, Connection, Row, Table, Time, read, table_of, write};

    fn identity() -> Identity {
        Identity { host: "web-1".into(), boot: "00112233445566778899aabbccddeeff".into() }
    }

    fn spool_file<T: Row>(table: Table, rows: Vec<T>, more: &[(&str, String)]) -> Bytes {
        let mut file = Vec::new();
        let mut metadata = vec![(TABLE, table.name().to_owned())];
        metadata.extend(more.iter().cloned());
        write(&mut file, rows, &metadata, &mut || ()).unwrap();
        file.into()
    }

    fn rows(number: u32) -> Vec<Connection> {
        let of = |n: u32| Connection {
            time: Time(1_800_000_000_000_000 + i64::from(n)),
            cookie: n.into(),
            program: (!n.is_multiple_of(3)).then(|| "curl".into()),
            ..Connection::default()
        };
        (0..number).map(of).collect()
    }

    /// The columns of a file, in their order.
    fn columns(file: &Bytes) -> Vec<String> {
        let metadata = ParquetMetaDataReader::new().parse_and_finish(file).unwrap();
        let fields = metadata.file_metadata().schema_descr().root_schema().get_fields().to_vec();
        fields.iter().map(|field| field.name().to_owned()).collect()
    }

    #[test]
    fn host_and_boot_come_first_and_all_else_is_as_it_was() {
        // More than one row group.
        let before = rows(20_000);
        let file = spool_file(Table::Connections, before.clone(), &[]);
        let landed = land(&file, &identity()).unwrap();
        assert_eq!(landed.rows, 20_000);
        let names = columns(&landed.bytes);
        assert_eq!(names[..2], [HOST, BOOT]);
        assert_eq!(names[2..], columns(&file));
        assert_eq!(read::<Connection, _>(landed.bytes.clone()).unwrap(), before);
        assert_eq!(table_of(landed.bytes.clone()), Some(Table::Connections));
        // Pages of the file that are not copied (its offset index) may take more than the constants.
        let (before, after) = (file.len(), landed.bytes.len());
        assert!(after < before + 2000, "two constants take {before} to {after} bytes");
    }

    #[test]
    fn the_same_file_lands_as_the_same_bytes() {
        let file = spool_file(Table::Connections, rows(100), &[]);
        let land = || land(&file, &identity()).unwrap().bytes;
        assert_eq!(land(), land());
    }

    #[test]
    fn the_agents_own_boot_is_not_there_twice() {
        let file = spool_file(Table::Agent, vec![AgentRow::default()], &[]);
        let names = columns(&land(&file, &identity()).unwrap().bytes);
        assert_eq!(names.iter().filter(|name| *name == BOOT).count(), 1);
        assert_eq!(names[..3], [HOST, BOOT, "time"]);
    }

    #[test]
    fn what_is_from_the_future_is_refused_by_its_version() {
        let file = spool_file(Table::Connections, rows(1), &[(FORMAT, "2".into())]);
        let refusal = land(&file, &identity()).err().unwrap().to_string();
        assert!(refusal.contains("its format is 2") && refusal.contains("newer"), "{refusal}");
    }

    #[test]
    fn a_table_without_rows_lands_too() {
        let file = spool_file(Table::Connections, rows(0), &[]);
        assert_eq!(land(&file, &identity()).unwrap().rows, 0);
    }

    proptest! {
        #[test]
        fn a_damaged_file_is_an_error_and_no_panic(cut in 0usize..4000, at in 0usize..40_000, to: u8) {
            static WHOLE: LazyLock<Bytes> =
                LazyLock::new(|| spool_file(Table::Connections, rows(50), &[]));
            let mut bytes = WHOLE.to_vec();
            let place = at % bytes.len();
            bytes[place] = to;
            bytes.truncate(bytes.len().saturating_sub(cut % 100));
            let _ = land(&bytes.into(), &identity());
        }
    }
}

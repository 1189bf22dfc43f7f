//! One column of a row group, as Parquet has it: a dictionary where there are few values, and one
//! page of data. The writer of the `parquet` crate hashes each value and begins a context of zstd
//! for each chunk, which took the agent more CPU time than all else (docs/agent.md).

use anyhow::Result;
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

use crate::column::Kind;
use crate::packing::{put_differences, put_run, put_runs, width_of};
use crate::values::Values;

const LEVEL: i32 = 3;
/// Longer texts would take more room than they save.
const LONGEST_STATISTIC: usize = 64;

/// What a page has beside its levels.
struct Encoded {
    /// Values of the dictionary before it.
    dictionary: Option<(Vec<u8>, usize)>,
    data: Vec<u8>,
    encoding: Encoding,
    statistics: Statistics,
}

pub struct Chunks {
    zstd: Compressor<'static>,
}

impl Chunks {
    /// # Errors
    /// Of zstd: no memory.
    pub fn new() -> Result<Chunks> {
        Ok(Chunks { zstd: Compressor::new(LEVEL)? })
    }

    /// The bytes of a chunk, and what is to be said of it.
    ///
    /// # Errors
    /// Of zstd.
    pub fn of(
        &mut self,
        column: ColumnDescPtr,
        kind: Kind,
        values: &Values,
    ) -> Result<(Bytes, ColumnCloseResult)> {
        let encoded = encoded(kind, values);
        let mut sink = TrackedWrite::new(Vec::new());
        let mut pages = SerializedPageWriter::new(&mut sink);
        let mut encodings = vec![Encoding::RLE, encoded.encoding];
        let mut uncompressed = 0;
        let mut dictionary_offset = None;
        if let Some((plain, number)) = encoded.dictionary {
            let page = pages.write_page(self.dictionary(plain, number)?)?;
            uncompressed += page.uncompressed_size;
            dictionary_offset = Some(page.offset as i64);
            encodings.push(Encoding::PLAIN);
        }
        let page = pages.write_page(self.data(values, &encoded.data, encoded.encoding)?)?;
        uncompressed += page.uncompressed_size;
        let bytes = Bytes::from(sink.into_inner()?);
        let metadata = ColumnChunkMetaData::builder(column)
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
            .set_encodings(encodings)
            .set_num_values(values.rows() as i64)
            .set_total_compressed_size(bytes.len() as i64)
            .set_total_uncompressed_size(uncompressed as i64)
            .set_dictionary_page_offset(dictionary_offset)
            .set_data_page_offset(page.offset as i64)
            .set_statistics(encoded.statistics)
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: bytes.len() as u64,
            rows_written: values.rows() as u64,
            metadata,
            bloom_filter: None,
            column_index: None,
            offset_index: None,
        };
        Ok((bytes, close))
    }

    /// A dictionary's page is always compressed, as the chunk says.
    fn dictionary(&mut self, plain: Vec<u8>, number: usize) -> Result<CompressedPage> {
        let page = Page::DictionaryPage {
            buf: self.zstd.compress(&plain)?.into(),
            num_values: number as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        Ok(CompressedPage::new(page, plain.len()))
    }

    fn data(&mut self, values: &Values, data: &[u8], encoding: Encoding) -> Result<CompressedPage> {
        let mut buf = levels(values);
        let levels = buf.len();
        let compressed = if data.is_empty() { Vec::new() } else { self.zstd.compress(data)? };
        let is_compressed = !data.is_empty() && compressed.len() < data.len();
        buf.extend_from_slice(if is_compressed { &compressed } else { data });
        let page = Page::DataPageV2 {
            buf: buf.into(),
            num_values: values.rows() as u32,
            encoding,
            num_nulls: values.nulls as u32,
            num_rows: values.rows() as u32,
            def_levels_byte_len: levels as u32,
            rep_levels_byte_len: 0,
            is_compressed,
            statistics: None,
        };
        Ok(CompressedPage::new(page, levels + data.len()))
    }
}

/// Which values are not null.
fn levels(values: &Values) -> Vec<u8> {
    let mut levels = Vec::new();
    if values.nulls == 0 || values.present() == 0 {
        put_run(&mut levels, values.rows(), u64::from(values.nulls == 0), 1);
    } else {
        put_runs(&mut levels, &values.levels, 1);
    }
    levels
}

fn encoded(kind: Kind, values: &Values) -> Encoded {
    match kind {
        Kind::Integer | Kind::Time => integers(values),
        Kind::Real => reals(values),
        Kind::Text => texts(values),
    }
}

/// Values that are all the same take a few bytes.
fn constant(plain: &[u8], rows: usize, statistics: Statistics) -> Encoded {
    let mut data = vec![1];
    put_run(&mut data, rows, 0, 1);
    let dictionary = Some((plain.to_vec(), 1));
    Encoded { dictionary, data, encoding: Encoding::RLE_DICTIONARY, statistics }
}

/// Neighbours are alike: differences take least.
fn integers(values: &Values) -> Encoded {
    let all = &values.integers;
    let both = |both: (i64, i64), value: &i64| (both.0.min(*value), both.1.max(*value));
    let (least, most) = all.first().map(|&first| all.iter().fold((first, first), both)).unzip();
    let statistics = Statistics::int64(least, most, None, Some(values.nulls as u64), false);
    if let Some(value) = least.filter(|_| least == most) {
        return constant(&value.to_le_bytes(), all.len(), statistics);
    }
    let mut data = Vec::new();
    put_differences(&mut data, all);
    Encoded { dictionary: None, data, encoding: Encoding::DELTA_BINARY_PACKED, statistics }
}

fn reals(values: &Values) -> Encoded {
    let all = &values.reals;
    let numbers = || all.iter().copied().filter(|value| !value.is_nan());
    let (least, most) = (numbers().reduce(f64::min), numbers().reduce(f64::max));
    // A reader takes one zero for the other.
    let (least, most) = (least.map(|v| if v == 0.0 { -0.0 } else { v }), most.map(|v| v + 0.0));
    let statistics = Statistics::double(least, most, None, Some(values.nulls as u64), false);
    let first = all.first().map(|value| value.to_bits());
    if let Some(bits) = first.filter(|first| all.iter().all(|value| value.to_bits() == *first)) {
        return constant(&bits.to_le_bytes(), all.len(), statistics);
    }
    let data = all.iter().flat_map(|value| value.to_le_bytes()).collect();
    Encoded { dictionary: None, data, encoding: Encoding::PLAIN, statistics }
}

/// Names are few: a dictionary.
fn texts(values: &Values) -> Encoded {
    let texts = &values.texts;
    let (least, most) = (texts.distinct().min(), texts.distinct().max());
    let is_short = |text: &&str| text.len() <= LONGEST_STATISTIC;
    let both = least.filter(is_short).zip(most.filter(is_short));
    let (least, most) = both.map(|(a, b)| (ByteArray::from(a), ByteArray::from(b))).unzip();
    let statistics = Statistics::byte_array(least, most, None, Some(values.nulls as u64), false);
    let mut plain = Vec::new();
    for text in texts.distinct() {
        plain.extend_from_slice(&(text.len() as u32).to_le_bytes());
        plain.extend_from_slice(text.as_bytes());
    }
    let number = texts.distinct().len();
    if number == 1 {
        return constant(&plain, texts.places().len(), statistics);
    }
    let width = width_of(number.saturating_sub(1) as u64).max(1);
    let mut data = vec![width as u8];
    put_runs(&mut data, texts.places(), width);
    let dictionary = Some((plain, number));
    Encoded { dictionary, data, encoding: Encoding::RLE_DICTIONARY, statistics }
}

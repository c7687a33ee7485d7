"""Where the data sets come from: files, mirrors, checksums, and where they lie once fetched.

A checksum is given only where it is published or was computed from a file that passed a published one. The others are
trusted on first use: what arrives first is recorded in a lock file in the data folder and compared from then on.
"""

import difflib

from momentalign.data._digits import MNIST_FILES
from momentalign.data._folders import BENCHMARKS, DUPLICATES
from momentalign.data._groups import WATERBIRDS_FOLDER
from momentalign.data._multinli import FOLDER as MULTINLI_FOLDER
from momentalign.data._multinli import METADATA, PARTS
from momentalign.data._source import Source, SourceFile
from momentalign.data._terra import sort_camera_traps


def _drive(identifier: str, resource_key: str = "") -> str:
    """Address of a public file on Google Drive that answers with the file, not with a page to confirm."""
    key = f"&resourcekey={resource_key}" if resource_key else ""
    return f"https://drive.usercontent.google.com/download?id={identifier}&export=download&confirm=t{key}"


def _mnist(name: str, sha256: str) -> SourceFile:
    hosts = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    # Of the unpacked content, whose MD5 is the published one: mirrors may pack the same bytes differently.
    return SourceFile(name, tuple(host + name for host in hosts), f"gunzip-sha256:{sha256}")


_LILA = ("https://storage.googleapis.com/public-datasets-lila/", "https://lilablobssc.blob.core.windows.net/")
_DOMAIN_NET = "http://csr.bu.edu/ftp/visda/2019/multi-source/"
_UNSTATED = "none stated; research use"

SOURCES: dict[str, Source] = {
    "mnist": Source(
        "mnist",
        tuple(name for pair in MNIST_FILES for name in pair),
        (
            _mnist("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            _mnist("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
            _mnist("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
            _mnist("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
        ),
        0.012,
        "http://yann.lecun.com/exdb/mnist/",
        "widely redistributed research data",
    ),
    "vlcs": Source(
        BENCHMARKS["vlcs"].folder,
        BENCHMARKS["vlcs"].domains,
        (SourceFile("VLCS.tar.gz", (_drive("1skwblH1_okBwxWxmRsp9_qi15hyPpxg8"),)),),
        3.6,
        "https://github.com/facebookresearch/DomainBed",
        _UNSTATED,
        {"Caltech101": 1415, "LabelMe": 2656, "SUN09": 3282, "VOC2007": 3376},
    ),
    "pacs": Source(
        BENCHMARKS["pacs"].folder,
        BENCHMARKS["pacs"].domains,
        (SourceFile("PACS.zip", (_drive("1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd"),)),),
        0.2,
        "https://github.com/facebookresearch/DomainBed",
        _UNSTATED,
        {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929},
    ),
    "office-home": Source(
        BENCHMARKS["office-home"].folder,
        BENCHMARKS["office-home"].domains,
        (
            SourceFile(
                "OfficeHomeDataset_10072016.zip",
                (
                    _drive("1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC"),
                    _drive("0B81rNlvomiwed0V1YUxQdC1uOTg", "0-2SNWq0CDAuWOBRRBL7ZZsw"),
                ),
                "md5:b1c14819770c4448fd5b6d931031c91c",
            ),
        ),
        1.1,
        "https://www.hemanthdv.org/officeHomeDataset.html",
        "research use, see its page",
        {"Art": 2427, "Clipart": 4365, "Product": 4439, "Real World": 4357},
    ),
    "terra-incognita": Source(
        BENCHMARKS["terra-incognita"].folder,
        BENCHMARKS["terra-incognita"].domains,
        (
            SourceFile(
                "eccv_18_all_images_sm.tar.gz",
                tuple(f"{host}caltechcameratraps/eccv_18_all_images_sm.tar.gz" for host in _LILA),
            ),
            SourceFile(
                "caltech_camera_traps.json.zip",
                tuple(f"{host}caltechcameratraps/labels/caltech_camera_traps.json.zip" for host in _LILA),
            ),
        ),
        6.5,
        "https://lila.science/datasets/caltech-camera-traps",
        "see its page",
        prepare=sort_camera_traps,
    ),
    "domain-net": Source(
        BENCHMARKS["domain-net"].folder,
        BENCHMARKS["domain-net"].domains,
        (
            *(
                SourceFile(path.rpartition("/")[2], (_DOMAIN_NET + path,))
                for path in (
                    "groundtruth/clipart.zip",
                    "infograph.zip",
                    "groundtruth/painting.zip",
                    "quickdraw.zip",
                    "real.zip",
                    "sketch.zip",
                )
            ),
            SourceFile(
                DUPLICATES,
                (
                    f"https://raw.githubusercontent.com/facebookresearch/DomainBed/main/domainbed/misc/{DUPLICATES}",
                    f"https://github.com/facebookresearch/DomainBed/raw/main/domainbed/misc/{DUPLICATES}",
                ),
            ),
        ),
        18.5,
        "http://ai.bu.edu/M3SDA/",
        "fair use, see its page",
    ),
    "waterbirds": Source(
        WATERBIRDS_FOLDER,
        ("metadata.csv",),
        (
            SourceFile(
                f"{WATERBIRDS_FOLDER}.tar.gz",
                (
                    f"https://nlp.stanford.edu/data/dro/{WATERBIRDS_FOLDER}.tar.gz",
                    f"https://downloads.cs.stanford.edu/nlp/data/dro/{WATERBIRDS_FOLDER}.tar.gz",
                ),
            ),
        ),
        0.5,
        "https://github.com/kohpangwei/group_DRO",
        "made of CUB-200-2011 and Places, see their terms",
        {"train": 4795, "val": 1199, "test": 5794},
    ),
    "celeba": Source(
        "celeba",
        (
            "img_align_celeba",
            "list_attr_celeba.csv|list_attr_celeba.txt",
            "list_eval_partition.csv|list_eval_partition.txt",
        ),
        (
            SourceFile(
                "img_align_celeba.zip",
                (
                    _drive("0B7EVK8r0v71pZjFTYXZWM3FlRnM", "0-dYn9z10tMJOBAkviAcfdyQ"),
                    _drive("1cNIac61PSA_LqDFYFUeyaQYekYPc75NH"),
                ),
                "sha256:46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
            ),
            SourceFile(
                "list_attr_celeba.txt",
                (_drive("0B7EVK8r0v71pblRyaVFSWGxPY0U"),),
                "sha256:f0e5da289d5ccf75ffe8811132694922b60f2af59256ed362afa03fefba324d0",
            ),
            SourceFile(
                "list_eval_partition.txt",
                (_drive("0B7EVK8r0v71pY0NSMzRuSXJEVkk"),),
                "sha256:fc955bcb3ef8fbdf7d5640d9a8693a8431b5f2ee291a5c1449a1549e7e073fe7",
            ),
        ),
        1.5,
        "http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
        "non-commercial research, see its page",
        {"train": 162770, "val": 19867, "test": 19962},
    ),
    "multinli": Source(
        MULTINLI_FOLDER,
        (*PARTS, METADATA),
        (
            SourceFile(
                "multinli_1.0.zip",
                (
                    "https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",
                    "https://www.nyu.edu/projects/bowman/multinli/multinli_1.0.zip",
                ),
                "sha256:049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
            ),
            SourceFile(
                f"{MULTINLI_FOLDER}/{METADATA}",
                (
                    f"https://raw.githubusercontent.com/kohpangwei/group_DRO/master/dataset_metadata/multinli/{METADATA}",
                    f"https://github.com/kohpangwei/group_DRO/raw/master/dataset_metadata/multinli/{METADATA}",
                ),
            ),
        ),
        0.24,
        "https://cims.nyu.edu/~sbowman/multinli/",
        "OANC licence and others, see its paper",
        {"train": 206175, "val": 82462, "test": 123712},
    ),
}
EMBEDDED = ("colored-digits", "rotated-digits")
"""Data sets without files."""
_ALIASES = {"colored-mnist": "mnist", "rotated-mnist": "mnist"}


def find_source(name: str) -> tuple[str, Source]:
    """The source of a data set.

    Args:
        name: Of a data set, or "mnist".

    Returns:
        Name of the source, and the source.

    Raises:
        ValueError: No such data set, or one without files.
    """
    if name in EMBEDDED:
        raise ValueError(f"{name} has no files: it is made of the digits that scikit-learn brings.")
    source = _ALIASES.get(name, name)
    if source not in SOURCES:
        known = (*EMBEDDED, *_ALIASES, *SOURCES)
        near = difflib.get_close_matches(name, known, 1)
        raise ValueError(
            f"There is no data set {name!r}."
            + (f" Meant '{near[0]}'?" if near else "")
            + f" Known: {', '.join(known)}."
        )
    return source, SOURCES[source]

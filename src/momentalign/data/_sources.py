"""Where the data sets come from: files, mirrors, checksums, and where they lie once fetched.

A checksum is given only where it is published or was computed from a file that passed a published one. The others are
trusted on first use: what arrives first is recorded in a lock file in the data folder and compared from then on.
"""

import difflib

from momentalign.data._digits import MNIST_FILES
from momentalign.data._folders import BENCHMARKS, DUPLICATES
from momentalign.data._groups import WATERBIRDS_FOLDER
from momentalign.data._hosts import LILA, of_domain_net, of_mnist, on_drive
from momentalign.data._multinli import FOLDER as MULTINLI_FOLDER
from momentalign.data._multinli import METADATA, PARTS
from momentalign.data._source import Source, SourceFile
from momentalign.data._terra import sort_camera_traps

_GROUP_DRO = "https://github.com/kohpangwei/group_DRO"
_UNSTATED = "none stated; research use"

SOURCES: dict[str, Source] = {
    "mnist": Source(
        "mnist",
        tuple(name for pair in MNIST_FILES for name in pair),
        (
            of_mnist("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
            of_mnist("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
            of_mnist("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
            of_mnist("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
        ),
        0.012,
        "http://yann.lecun.com/exdb/mnist/",
        "widely redistributed research data",
    ),
    "vlcs": Source(
        BENCHMARKS["vlcs"].folder,
        BENCHMARKS["vlcs"].domains,
        (
            SourceFile(
                "VLCS.tar.gz", (on_drive("1skwblH1_okBwxWxmRsp9_qi15hyPpxg8"),), "md5:8870171eba660927d9668f4e515928e4"
            ),
        ),
        3.6,
        "https://github.com/facebookresearch/DomainBed",
        _UNSTATED,
        {"Caltech101": 1415, "LabelMe": 2656, "SUN09": 3282, "VOC2007": 3376},
    ),
    "pacs": Source(
        BENCHMARKS["pacs"].folder,
        BENCHMARKS["pacs"].domains,
        (
            SourceFile(
                "PACS.zip",
                (
                    on_drive("1JFr8f805nMUelQWWmfnJR3y4_SYoN5Pd"),
                    # Another archive, of the same domains and classes and as many images.
                    "https://huggingface.co/datasets/Azeez577/PACS/resolve/fb1ee820df83b4e9957251d9f6973eb6d424c494/PACS.zip",
                ),
                "md5:fd5db817f7cdafeef3bfd525aaf9b42e"
                "|sha256:42bf567f1ed8a01d522e47e4a677e2a3149577bbd6fcbb38bedfdd73cb59e147",
            ),
        ),
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
                    on_drive("1uY0pj7oFsjMxRwaD3Sxy0jgel0fsYXLC"),
                    on_drive("0B81rNlvomiwed0V1YUxQdC1uOTg", "0-2SNWq0CDAuWOBRRBL7ZZsw"),
                    on_drive("1o2ieb-WCn-d4UBpJ_Fg5n1uIil60nJz2"),
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
                tuple(f"{host}caltechcameratraps/eccv_18_all_images_sm.tar.gz" for host in LILA),
                "sha256:50d0e46d4f42c4891d99a13cda80b6c062d3586d79296edc9d1406a5e7cc4b20",
            ),
            SourceFile(
                "caltech_camera_traps.json.zip",
                tuple(f"{host}caltechcameratraps/labels/caltech_camera_traps.json.zip" for host in LILA),
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
            of_domain_net(
                "groundtruth/clipart.zip", "f8f248a3e8bbc9868c523ae24e6601b4c2ad102afc60c0efeb4f3255df22354d"
            ),
            of_domain_net("infograph.zip", "891e14f476317e97b6f06d6498c11d0a5b8d0c8b57210765ed9beb072da611fa"),
            of_domain_net(
                "groundtruth/painting.zip", "fa47e6d405503ea0286cabd767f176bd30e988b63ddd7b9db16cf030c9770015"
            ),
            of_domain_net("quickdraw.zip", "9f37df2a8c3733703dbb35ad9964202a65f675ca30137756457537536b485d84"),
            of_domain_net("real.zip", "d7fe010b430c5b510f85d657d38c4a1924822695fabea4fef57bd00dba251d63"),
            of_domain_net("sketch.zip", "23a7dbae7016b343e934399beaa8a68728fb5e570ebe2c71df9b75cf91c499fc"),
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
                "sha256:56c51b77f7d17283ac97003d973e9107e8af9ceebffcb0c8be14d024f846f951",
            ),
        ),
        0.5,
        _GROUP_DRO,
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
                    on_drive("0B7EVK8r0v71pZjFTYXZWM3FlRnM", "0-dYn9z10tMJOBAkviAcfdyQ"),
                    on_drive("1cNIac61PSA_LqDFYFUeyaQYekYPc75NH"),
                    on_drive("1zmsC4yvw-e089uHXj5EdP0BSZ0AlDQRR"),
                ),
                "sha256:46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
            ),
            SourceFile(
                "list_attr_celeba.txt",
                (on_drive("0B7EVK8r0v71pblRyaVFSWGxPY0U"), on_drive("1gxmFoeEPgF9sT65Wpo85AnHl3zsQ4NvS")),
                "sha256:f0e5da289d5ccf75ffe8811132694922b60f2af59256ed362afa03fefba324d0",
            ),
            SourceFile(
                "list_eval_partition.txt",
                (on_drive("0B7EVK8r0v71pY0NSMzRuSXJEVkk"), on_drive("1ih_VMokoI774ErNWrb26lDeWlanUBpnX")),
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
                    f"{_GROUP_DRO}/raw/f7eae929bf4f9b3c381fae6b1b53ab4c6c911a0e/dataset_metadata/multinli/{METADATA}",
                    f"https://raw.githubusercontent.com/kohpangwei/group_DRO/master/dataset_metadata/multinli/{METADATA}",
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

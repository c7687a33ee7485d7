"""Addresses on the hosts that data sets lie on."""

from momentalign.data._source import SourceFile

LILA = (
    "https://storage.googleapis.com/public-datasets-lila/",
    "https://lilawildlife.blob.core.windows.net/lila-wildlife/",
    "https://s3.us-west-2.amazonaws.com/us-west-2.opendata.source.coop/agentmorris/lila-wildlife/",
    "https://lilablobssc.blob.core.windows.net/",
)
"""Of one library of camera traps, which has the same names on all of them."""


def on_drive(identifier: str, resource_key: str = "") -> str:
    """Address of a public file on Google Drive that answers with the file, not with a page to confirm."""
    key = f"&resourcekey={resource_key}" if resource_key else ""
    return f"https://drive.usercontent.google.com/download?id={identifier}&export=download&confirm=t{key}"


def of_mnist(name: str, sha256: str) -> SourceFile:
    """A file of MNIST, checked by its unpacked content, since mirrors may pack the same bytes differently."""
    hosts = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
    # The content's MD5 is the published one; SHA-256 is computed from a file that passed it.
    return SourceFile(name, tuple(host + name for host in hosts), f"gunzip-sha256:{sha256}")


def of_domain_net(path: str, sha256: str) -> SourceFile:
    """An archive of DomainNet."""
    urls = tuple(f"{scheme}://csr.bu.edu/ftp/visda/2019/multi-source/{path}" for scheme in ("https", "http"))
    return SourceFile(path.rpartition("/")[2], urls, f"sha256:{sha256}")

"""The share of the device that a server of SGLang gets."""

from lightrl_servers.device_share import Room
from lightrl_sglang import SGLangEngine


def test_the_share_is_of_what_is_free_and_leaves_room_for_activations() -> None:
    room = Room(total=80e9, in_use=6e9, to_come=18e9, weights=3e9)
    words = ["--enable-memory-saver", "--mem-fraction-static", f"{0.85 * 52 / 74:.3f}"]
    assert SGLangEngine.dialect.share_words(room, [], False) == words
    assert SGLangEngine.dialect.share_words(room, [], True)[1] == "--enable-weights-cpu-backup"

import multiprocessing

from momentalign.runs import Claims


def test_a_claim_excludes_others_and_ends_with_its_holder(tmp_path):
    mine, theirs = Claims(tmp_path), Claims(tmp_path)
    assert mine.acquire("a")
    assert not theirs.acquire("a")
    assert theirs.acquire("b")
    mine.release("a", finished=False)
    assert theirs.acquire("a")
    theirs.release_all()
    assert mine.acquire("b")
    mine.release("b", finished=True)
    assert not (tmp_path / ".locks" / "b").exists()


def test_a_folder_of_locks_that_another_sweep_removed_is_made_again(tmp_path):
    mine, theirs = Claims(tmp_path), Claims(tmp_path)
    theirs.release_all()
    assert not (tmp_path / ".locks").exists()
    assert mine.acquire("a")
    assert not theirs.acquire("a")


def _hold(folder, ready, go):
    claims = Claims(folder)
    claims.acquire("a")
    ready.set()
    go.wait()
    claims.release_all()


def test_a_killed_process_holds_nothing(tmp_path):
    context = multiprocessing.get_context("fork")
    ready, go = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, go))
    holder.start()
    assert ready.wait(20)
    claims = Claims(tmp_path)
    assert not claims.acquire("a")
    holder.kill()
    holder.join()
    assert claims.acquire("a")

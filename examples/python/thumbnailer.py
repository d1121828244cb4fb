"""Makes thumbnails of PNG images: files as artifacts, progress, one job for each file, a failure that is not retried.

python thumbnailer.py worker                  runs the jobs
python thumbnailer.py make images             writes some images to try it with
python thumbnailer.py submit images thumbs    submits a job for each image and stores the thumbnails
"""

from __future__ import annotations

import sys
from pathlib import Path

import png

import jobhall
from jobhall import spec
from jobhall.worker import NoRetry

worker = jobhall.Worker(slots=2, name="thumbnailer")


@worker.job("thumbnail", max_attempts=3, timeout=60)
def thumbnail(ctx: jobhall.Context, path: Path, width: int = 64) -> dict[str, int]:
    """Stores the artifact ``thumbnail.png`` and returns its size."""
    try:
        image = png.read(path.read_bytes())
    except (ValueError, FileNotFoundError) as error:
        # The next attempt would find the same file.
        raise NoRetry(f"{path}: {error}") from error
    height = max(1, round(image.height * width / image.width))
    rows = [png.scale_row(image, row, width, height) for row in ctx.track(range(height), message="rows")]
    data = png.write(png.Image(width, height, rows))
    ctx.artifact_sync("thumbnail.png", data, "image/png")
    print(f"{path.name}: {image.width} x {image.height} -> {width} x {height}, {len(data)} bytes")
    return {"width": width, "height": height}


def submit(source: Path, target: Path) -> int:
    """A job for each image. Images that are submitted again while they wait are not made twice: the key is the path."""
    target.mkdir(exist_ok=True)
    images = sorted(path.absolute() for path in source.glob("*.png"))
    jobs = [spec(thumbnail, key=str(path), path=str(path)) for path in images]
    with jobhall.Client() as client:
        names = {job.id: path.name for job, path in zip(client.submit_many(jobs), images, strict=True)}
        failures = 0
        for job in client.as_completed(list(names), timeout=300):
            try:
                size = job.result()
            except jobhall.JobFailed as failed:
                failures += 1
                print(f"{names[job.id]}: {str(failed).splitlines()[-1]}")
                continue
            job.download("thumbnail.png", target / names[job.id])
            print(f"{names[job.id]}: {size['width']} x {size['height']}")
    print(f"{len(names) - failures} thumbnails in {target}")
    return 1 if failures else 0


def make(target: Path) -> int:
    """Images to try it with: colours that change over 320 x 200 pixels."""
    target.mkdir(exist_ok=True)
    for name, blue in (("dawn", 40), ("noon", 140), ("dusk", 240)):
        rows = [bytes(v for x in range(320) for v in (x * 255 // 319, y * 255 // 199, blue)) for y in range(200)]
        (target / f"{name}.png").write_bytes(png.write(png.Image(320, 200, rows)))
    return 0


def main(arguments: list[str]) -> int:
    match arguments:
        case ["worker"]:
            worker.run()
            return 0
        case ["make", target]:
            return make(Path(target))
        case ["submit", source, target]:
            return submit(Path(source), Path(target))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

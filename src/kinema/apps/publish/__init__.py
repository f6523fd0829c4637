"""Static web pages that simulate a robot or a scene in the browser."""

from .site import (
    PublishedSite as PublishedSite,
    load_scene_file as load_scene_file,
    publish as publish,
)

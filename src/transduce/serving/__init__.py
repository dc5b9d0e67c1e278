"""The HTTP service: a page that translates as you type, a JSON API, and LibreTranslate's API.

In reading order:

- `limits`: sizes, times and rates, with one default each
- `batching`: sentences of many requests, searched together (imports without FastAPI)
- `models`: the models that are served
- `service`: texts to translations, within the limits of the queue
- `inspections`: attention of a sentence, computed in a background thread
- `runs`: logs of training runs for the runs page
- `schemas`, `requests`, `forms`, `problems`: requests and answers
- `libretranslate`, `languages`, `paragraphs`: the two translation APIs
- `keys`, `clients`, `origins`, `access`: who may use the service, and how much
- `middleware`: applies them to every request
- `metrics`, `logs`, `static_files`: Prometheus metrics, the log, files of the pages
- `app`: the routes
- `connections`, `server`: the app on a socket
"""

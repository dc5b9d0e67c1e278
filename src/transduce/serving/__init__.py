"""The HTTP service: a page that translates as you type, a JSON API, and LibreTranslate's API.

In reading order:

- `limits`: limits on sizes, times and rates, and their defaults
- `batching`: batches of sentences from many requests (does not import FastAPI)
- `models`: the models that are served
- `service`: translation of texts, within the limits of the queue
- `inspections`: the attention of a sentence, computed in a background thread
- `reloading`: replacing models by the present weights of their run folders
- `runs`: logs of training runs for the runs page
- `schemas`, `requests`, `forms`, `problems`: requests and answers
- `directions`, `detection`: which direction of which model translates a request
- `libretranslate`, `languages`, `paragraphs`, `html_texts`, `glossaries`: the two translation APIs
- `documents`, `downloads`, `document_routes`: documents
- `keys`, `clients`, `origins`, `access`: who may use the service, and how much
- `middleware`: applies these rules to every request
- `metrics`, `logs`, `static_files`: Prometheus metrics, the log, the files of the pages
- `app`: the routes
- `connections`, `server`: the app on a socket
"""

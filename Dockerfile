# Kinema and its viewer: docker build -t kinema . && docker run --rm kinema --help
FROM python:3.13-slim

WORKDIR /kinema
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY examples examples
RUN pip install --no-cache-dir '.[viewer,xacro]'

# compiled robots: mount a volume here to keep them
RUN useradd --create-home user && mkdir /cache && chown user /cache
ENV KINEMA_CACHE=/cache
USER user

EXPOSE 8080
ENTRYPOINT ["kinema"]
CMD ["--help"]

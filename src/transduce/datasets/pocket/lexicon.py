"""The words of the pocket corpus, one line a lemma.

A column of English or German holds the forms that no rule gives; `~` marks a part of a verb that
can stand apart: pick~up ("pick her up") and an~rufen ("ruft an"); `+` one that cannot: look+for.
American spelling; "you" is du. One English word has one German word, unless the sentence around it
decides which: people know (wissen) that they know (kennen) a song.
"""
# ruff: noqa: E501, a lemma is a line

# English (irregular plural) | German, its plural, gender | what the noun can be
# Gender w: a weak masculine noun, which has its plural's form in all but the nominative singular.
# A plural "-": only singular; "=": only plural; "0": a mass, with neither article nor plural.
PEOPLE = """
man men             | Mann Männer m                        | adult grown
woman women         | Frau Frauen f                        | adult grown
child children      | Kind Kinder n                        | child own
boy                 | Junge Jungen w                       | child
girl                | Mädchen Mädchen n                    | child
mother              | Mutter - f                           | adult kin
father              | Vater - m                            | adult kin
parents             | Eltern = m                           | adult kin
brother             | Bruder Brüder m                      | adult kin
sister              | Schwester Schwestern f               | adult kin
son                 | Sohn Söhne m                         | adult kin
daughter            | Tochter Töchter f                    | adult kin
uncle               | Onkel Onkel m                        | adult kin
aunt                | Tante Tanten f                       | adult kin
grandmother         | Großmutter - f                       | adult kin
grandfather         | Großvater - m                        | adult kin
friend              | Freund Freunde m                     | adult own grown
neighbor            | Nachbar Nachbarn w                   | adult own grown
colleague           | Kollege Kollegen w                   | adult own grown
guest               | Gast Gäste m                         | adult own grown
boss bosses         | Chef Chefs m                         | adult own grown
teacher             | Lehrer Lehrer m                      | adult own grown
student             | Student Studenten w                  | adult
doctor              | Arzt Ärzte m                         | adult own grown
nurse               | Krankenschwester Krankenschwestern f | adult grown
baker               | Bäcker Bäcker m                      | adult grown
farmer              | Bauer Bauern w                       | adult grown
gardener            | Gärtner Gärtner m                    | adult own grown
policeman policemen | Polizist Polizisten w                | adult grown
actor               | Schauspieler Schauspieler m          | adult grown
actress actresses   | Schauspielerin Schauspielerinnen f   | adult grown
waiter              | Kellner Kellner m                    | adult grown
waitress waitresses | Kellnerin Kellnerinnen f             | adult grown
king                | König Könige m                       | adult grown
queen               | Königin Königinnen f                 | adult grown
prince              | Prinz Prinzen w                      | adult
princess princesses | Prinzessin Prinzessinnen f           | adult
artist              | Künstler Künstler m                  | adult grown
tourist             | Tourist Touristen w                  | adult grown
customer            | Kunde Kunden w                       | adult own grown
"""

ANIMALS = """
dog        | Hund Hunde m          | pet dog own
cat        | Katze Katzen f        | pet own
horse      | Pferd Pferde n        | farm own
cow        | Kuh Kühe f            | farm
pig        | Schwein Schweine n    | farm
duck       | Ente Enten f          | farm bird
bird       | Vogel Vögel m         | bird prey
mouse mice | Maus Mäuse f          | prey
rabbit     | Kaninchen Kaninchen n | prey own
bear       | Bär Bären w           | beast
lion       | Löwe Löwen w          | beast
elephant   | Elefant Elefanten w   | beast
"""

THINGS = """
book          | Buch Bücher n              | text written goods small lay
newspaper     | Zeitung Zeitungen f        | text goods lay
letter        | Brief Briefe m             | text written mail small lay
novel         | Roman Romane m             | text written goods
poem          | Gedicht Gedichte n         | text written
story stories | Geschichte Geschichten f   | text written told
movie         | Film Filme m               | show
song          | Lied Lieder n              | show song
picture       | Bild Bilder n              | goods view furniture
photo         | Foto Fotos n               | view small lay
car           | Auto Autos n               | vehicle goods
bicycle       | Fahrrad Fahrräder n        | vehicle goods
boat          | Boot Boote n               | vehicle goods
bus buses     | Bus Busse m                | transport
train         | Zug Züge m                 | transport
table         | Tisch Tische m             | goods furniture surface made
chair         | Stuhl Stühle m             | goods furniture surface made stand
bed           | Bett Betten n              | goods furniture surface
lamp          | Lampe Lampen f             | goods furniture device stand
clock         | Uhr Uhren f                | goods furniture
door          | Tür Türen f                | opening
window        | Fenster Fenster n          | opening
key           | Schlüssel Schlüssel m      | small lay
bag           | Tasche Taschen f           | goods small load hollow
suitcase      | Koffer Koffer m            | goods load hollow
box boxes     | Kiste Kisten f             | load hollow
umbrella      | Regenschirm Regenschirme m | goods small load
ring          | Ring Ringe m               | goods small
ball          | Ball Bälle m               | goods small toy
doll          | Puppe Puppen f             | goods small toy
coat          | Mantel Mäntel m            | clothes goods
jacket        | Jacke Jacken f             | clothes goods
shirt         | Hemd Hemden n              | clothes goods lay
dress dresses | Kleid Kleider n            | clothes goods
hat           | Hut Hüte m                 | clothes goods small
shoes         | Schuhe = m                 | clothes goods
phone         | Telefon Telefone n         | goods device
computer      | Computer Computer m        | goods device
radio         | Radio Radios n             | goods device
camera        | Kamera Kameras f           | goods small lay
knife knives  | Messer Messer n            | dishes lay
fork          | Gabel Gabeln f             | dishes lay
plate         | Teller Teller m            | dishes frail stand
cup           | Tasse Tassen f             | dishes frail stand
glass glasses | Glas Gläser n              | dishes frail stand
bottle        | Flasche Flaschen f         | frail stand load
flower        | Blume Blumen f             | goods plant
tree          | Baum Bäume m               | plant landmark
gift          | Geschenk Geschenke n       | goods small gift
money         | Geld 0 n                   | money
"""

FOOD = """
apple           | Apfel Äpfel m          | food fruit snack
banana          | Banane Bananen f       | food fruit snack
tomato tomatoes | Tomate Tomaten f       | food fruit snack
potato potatoes | Kartoffel Kartoffeln f | food cooked
egg             | Ei Eier n              | food cooked
cake            | Kuchen Kuchen m        | food baked snack
cookie          | Keks Kekse m           | food baked snack
soup            | Suppe Suppen f         | food cooked served
bread           | Brot 0 n               | food baked fodder
cheese          | Käse 0 m               | food fodder
meat            | Fleisch 0 n            | food cooked fodder
water           | Wasser 0 n             | drink
milk            | Milch 0 f              | drink
coffee          | Kaffee 0 m             | drink served
tea             | Tee 0 m                | drink served
juice           | Saft 0 m               | drink
wine            | Wein 0 m               | drink
beer            | Bier 0 n               | drink
"""

THOUGHTS = """
question | Frage Fragen f      | matter
answer   | Antwort Antworten f | matter
problem  | Problem Probleme n  | matter topic
plan     | Plan Pläne m        | matter topic
mistake  | Fehler Fehler m     | matter topic
joke     | Witz Witze m        | told
dream    | Traum Träume m      | told topic
"""

# The last column begins with how one is there: the English and the German preposition.
PLACES = """
garden            | Garten Gärten m             | in:in outside own
kitchen           | Küche Küchen f              | in:in chamber own
room              | Zimmer Zimmer n             | in:in chamber own
office            | Büro Büros n                | in:in chamber own
house             | Haus Häuser n               | in:in building landmark property own
school            | Schule Schulen f            | at:in building landmark goal
church churches   | Kirche Kirchen f            | in:in building landmark goal
museum            | Museum Museen n             | in:in building landmark goal
hospital          | Krankenhaus Krankenhäuser n | in:in building landmark goal
restaurant        | Restaurant Restaurants n    | in:in building landmark goal
hotel             | Hotel Hotels n              | in:in building landmark goal
library libraries | Bibliothek Bibliotheken f   | in:in building landmark goal
theater           | Theater Theater n           | in:in building landmark goal
bakery bakeries   | Bäckerei Bäckereien f       | in:in building landmark goal
castle            | Schloss Schlösser n         | in:in sight goal landmark
station           | Bahnhof Bahnhöfe m          | at:an building landmark goal
airport           | Flughafen Flughäfen m       | at:an building goal
market            | Markt Märkte m              | at:auf goal
park              | Park Parks m                | in:in outside goal
beach beaches     | Strand Strände m            | at:an outside goal
lake              | See Seen m                  | at:an outside sight goal
river             | Fluss Flüsse m              | at:an outside sight goal
forest            | Wald Wälder m               | in:in outside
village           | Dorf Dörfer n               | in:in town sight
city cities       | Stadt Städte f              | in:in town sight
island            | Insel Inseln f              | on:auf sight
mountain          | Berg Berge m                | on:auf sight
bridge            | Brücke Brücken f            | on:auf landmark goal sight
"""

# English | German before an ending (and alone) | the nouns it goes with | comparatives
ADJECTIVES = """
old         | alt          | grown text goods building town castle bridge market key transport opening tree joke | older älter
young       | jung         | grown pet farm beast | younger jünger
small       | klein        | child pet prey goods place key mistake | smaller kleiner
big         | groß         | pet farm beast furniture load place opening tree mistake | bigger größer
new         | neu          | goods dishes building friend key transport opening plan
beautiful   | schön        | clothes plant view place song dream | more_beautiful schöner
expensive   | teur teuer   | goods | more_expensive teurer
cheap       | billig       | goods | cheaper billiger
friendly    | freundlich   | person
nice        | nett         | person
famous      | berühmt      | grown show text
rich        | reich        | grown | richer reicher
poor        | arm          | grown | poorer ärmer
smart       | klug         | person | smarter klüger
lazy        | faul         | person pet | lazier fauler
brave       | mutig        | person
curious     | neugierig    | person pet
strong      | stark        | person beast farm | stronger stärker
happy       | glücklich    | person
sad         | traurig      | person show told
tired       | müd müde     | person pet farm
hungry      | hungrig      | person pet farm beast prey
thirsty     | durstig      | person pet farm
sick        | krank        | person pet farm
angry       | wütend       | person
dangerous   | gefährlich   | beast dog mountain bridge river
interesting | interessant  | text show view museum matter
boring      | langweilig   | text show museum
long        | lang         | written show coat dress bridge river train dream | longer länger
short       | kurz         | written show coat dress | shorter kürzer
funny       | lustig       | told show view
important   | wichtig      | question answer problem plan mail
difficult   | schwierig    | question problem book novel poem
strange     | seltsam      | told matter
good        | gut          | text show friend teacher doctor waiter food drink question answer plan joke
heavy       | schwer       | load furniture | heavier schwerer
dirty       | schmutzig    | clothes vehicle dishes chamber opening
clean       | sauber       | clothes dishes chamber
broken      | kaputt       | device vehicle frail chair clock
empty       | leer         | hollow bottle glass cup transport
fresh       | frisch       | fruit baked fodder milk
delicious   | lecker       | food coffee tea juice wine
hot         | heiß         | served cooked
cold        | kalt         | drink cooked
sweet       | süß          | fruit cake cookie
dark        | dunkl dunkel | chamber forest
quiet       | ruhig        | outside town library
red         | rot          | clothes vehicle dishes furniture
blue        | blau         | clothes vehicle dishes toy
green       | grün         | clothes vehicle dishes load
white       | weiß         | clothes flower pet
black       | schwarz      | clothes vehicle pet farm
"""

NAMES = """
Anna f
Maria f
Julia f
Emma f
Clara f
Lena f
Peter m
Paul m
Martin m
David m
Anton m
Oskar m
"""

CITIES = """
Berlin  | Berlin
Hamburg | Hamburg
Munich  | München
Cologne | Köln
Vienna  | Wien
Rome    | Rom
Paris   | Paris
London  | London
"""

# English | German | for: it is good that, es ist gut, dass
JUDGEMENTS = """
good      | gut
important | wichtig
possible  | möglich
strange   | seltsam
true      | wahr
"""

# English | German | where it stands: at the end in English and early in German (late: in neither
# early), or mid: before the verb in English | the tenses it goes with
#   front: may begin the sentence; not: may stand beside a negation
ADVERBS = """
now           | jetzt         | end | present later front not
today         | heute         | end | present later future front not
this week     | diese Woche   | end | later future front not
yesterday     | gestern       | end | past front not
last week     | letzte Woche  | end | past front not
last year     | letztes Jahr  | end | past front not
on Monday     | am Montag     | end | past later future front not
on Tuesday    | am Dienstag   | end | past later future front not
on Wednesday  | am Mittwoch   | end | past later future front not
on Thursday   | am Donnerstag | end | past later future front not
on Friday     | am Freitag    | end | past later future front not
on Saturday   | am Samstag    | end | past later future front not
on Sunday     | am Sonntag    | end | past later future front not
tomorrow      | morgen        | end | later future front not
next week     | nächste Woche | end | later future front not
soon          | bald          | end | future
again         | wieder        | late | present past
every day     | jeden Tag     | end | habit front
every morning | jeden Morgen  | end | habit front
every evening | jeden Abend   | end | habit front
often         | oft           | mid | habit
always        | immer         | mid | habit
sometimes     | manchmal      | mid | habit front
usually       | meistens      | mid | habit front
rarely        | selten        | mid | habit
never         | nie           | mid | habit perfect
already       | schon         | mid | perfect
"""

NUMBERS = """
two zwei, three drei, four vier, five fünf, six sechs, seven sieben, eight acht, nine neun,
ten zehn, eleven elf, twelve zwölf, thirteen dreizehn, fourteen vierzehn, fifteen fünfzehn,
sixteen sechzehn, seventeen siebzehn, eighteen achtzehn, nineteen neunzehn
"""

TENS = """
twenty zwanzig, thirty dreißig, forty vierzig, fifty fünfzig, sixty sechzig, seventy siebzig,
eighty achtzig, ninety neunzig
"""

# Verb | adjectives for which one does it to a thing | adjectives in spite of which
REASONS = """
buy         | cheap new beautiful good fresh delicious interesting | expensive old
order       | cheap new beautiful good delicious                   | expensive
sell        | old big expensive                                    | new beautiful cheap
wash        | dirty                                                | clean new
clean       | dirty                                                | clean
tidy~up     | dirty                                                | clean
repair      | broken old                                           | cheap old
throw~away  | old dirty boring                                     | new good beautiful
read        | interesting short funny good                         | long boring
write       | important                                            | short long
put~on      | new beautiful clean                                  | old dirty
try~on      | new beautiful cheap                                  | expensive
wear        | new beautiful red blue green                         | old dirty
eat         | delicious fresh sweet good                           | cold
drink       | good fresh hot                                       | cold
cut         | fresh good | cold
turn~off    | old broken                                           | new expensive
bring~along | good fresh delicious new                             | expensive old
hide        | expensive new beautiful                              | cheap old
steal       | expensive new beautiful                              | old cheap
lose        | small                                                | expensive new
"""

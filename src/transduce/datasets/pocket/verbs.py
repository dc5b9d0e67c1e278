"""The verbs of the pocket corpus, one line a lemma, in the notation of `lexicon`."""
# ruff: noqa: E501, a lemma is a line

# English (past, participle and -ing, where irregular) | German infinitive, er-form, participle, and
# s where the perfect takes sein | who does it | to what | how it is used
#   state: simple present alone; simple: no progressive; event: no present at all
#   place: may say where; with: may say with whom; passive: may be passive; aim: what one goes for
#   for, from: may take such an addition; gern: may be liked; happens: is not done on purpose;
#   lasts, moment: has no moment of its own, has nothing else
INTRANSITIVE = """
sleep slept slept            | schlafen schläft geschlafen        | person pet farm | | place gern
work                         | arbeiten arbeitet gearbeitet       | adult | | place with gern
laugh                        | lachen lacht gelacht               | person | |
cry                          | weinen weint geweint               | person | | happens
smile                        | lächeln lächelt gelächelt          | person | |
dance                        | tanzen tanzt getanzt               | person | | place with gern
swim swam swum swimming      | schwimmen schwimmt geschwommen s   | person | | with gern
play                         | spielen spielt gespielt            | child pet | | place
bark                         | bellen bellt gebellt               | dog | | happens
wait                         | warten wartet gewartet             | person | | place with
run ran run running          | rennen rennt gerannt s             | person pet | |
shop shopped shopped shopping | ein~kaufen kauft eingekauft       | adult | | with aim gern
get~up got gotten getting    | auf~stehen steht aufgestanden s    | person | | moment
wake~up woke woken           | auf~wachen wacht aufgewacht s      | person | | happens moment
fall~asleep fell fallen      | ein~schlafen schläft eingeschlafen s | person | | happens moment
come~back came come          | zurück~kommen kommt zurückgekommen s | person | | moment
go~out went gone             | aus~gehen geht ausgegangen s       | adult | | with gern moment
arrive                       | an~kommen kommt angekommen s       | person transport | | happens moment
depart                       | ab~fahren fährt abgefahren s       | transport | | happens moment
"""

TRANSITIVE = """
read read read           | lesen liest gelesen             | person | text | place passive gern
write wrote written      | schreiben schreibt geschrieben  | person | written | place passive gern
buy bought bought        | kaufen kauft gekauft            | adult | goods food drink property | passive aim for
sell sold sold           | verkaufen verkauft verkauft     | adult | goods property farm | passive aim
see saw seen             | sehen sieht gesehen             | person | person animal vehicle sight movie | simple moment
hear heard heard         | hören hört gehört               | person | song animal person | simple moment
watch                    | beobachten beobachtet beobachtet | person | animal person | place gern
visit                    | besuchen besucht besucht        | person | person sight museum | aim gern moment
know knew known          | kennen kennt gekannt            | person | person song sight outside | state
love                     | lieben liebt geliebt            | person | person pet show | state
like                     | mögen mag gemocht               | person | person animal food drink show outside | state
need                     | brauchen braucht gebraucht      | person | goods dishes small money | state
have had had             | haben hat gehabt                | person | goods pet matter money | state
look+for                 | suchen sucht gesucht            | person | small person pet clothes | aim
find found found         | finden findet gefunden          | person | small pet clothes money | event moment
lose lost lost           | verlieren verliert verloren     | person | small money | event moment
forget forgot forgotten forgetting | vergessen vergisst vergessen | person | small clothes answer plan | event
receive                  | bekommen bekommt bekommen       | person | mail gift answer money | event from moment
steal stole stolen       | stehlen stiehlt gestohlen       | adult | small money vehicle | event passive
hide hid hidden          | verstecken versteckt versteckt  | person | small money | passive
repair                   | reparieren repariert repariert  | adult | vehicle device chair clock | passive
wash                     | waschen wäscht gewaschen        | person | clothes vehicle dishes | passive
clean                    | putzen putzt geputzt            | person | chamber shoes window | passive
close                    | schließen schließt geschlossen  | person | opening hollow | passive moment
open                     | öffnen öffnet geöffnet          | person | opening hollow mail bottle | passive moment
lock                     | ab~schließen schließt abgeschlossen | person | door house car office | passive
tidy~up                  | auf~räumen räumt aufgeräumt     | person | chamber |
turn~on                  | ein~schalten schaltet eingeschaltet | person | device | moment
turn~off                 | aus~schalten schaltet ausgeschaltet | person | device | moment
put~on put put putting   | an~ziehen zieht angezogen       | person | clothes |
try~on                   | an~probieren probiert anprobiert | person | clothes |
wear wore worn           | tragen trägt getragen           | person | clothes | gern lasts
carry                    | tragen trägt getragen           | person | load |
throw~away threw thrown  | weg~werfen wirft weggeworfen    | person | text clothes food | passive
give~back gave given     | zurück~geben gibt zurückgegeben | person | small money |
bring~along brought brought | mit~bringen bringt mitgebracht | person | food gift toy |
look+at                  | an~sehen sieht angesehen        | person | view sight building outside | aim gern
eat ate eaten            | essen isst gegessen             | person | food | place aim gern
eat ate eaten            | fressen frisst gefressen        | pet farm | fodder |
drink drank drunk        | trinken trinkt getrunken        | person | drink | place aim gern
cook                     | kochen kocht gekocht            | adult | cooked | passive for gern
bake                     | backen backt gebacken           | adult | baked | passive for gern
order                    | bestellen bestellt bestellt     | adult | food drink goods | passive for
cut cut cut cutting      | schneiden schneidet geschnitten | person | bread cheese meat cake |
feed fed fed             | füttern füttert gefüttert       | person | pet farm | passive gern
catch caught caught      | fangen fängt gefangen           | person pet | prey ball |
chase                    | jagen jagt gejagt               | pet beast | prey pet farm |
bite bit bitten          | beißen beißt gebissen           | dog | person | event passive moment
paint                    | malen malt gemalt               | person | picture animal plant sight outside | passive gern
draw drew drawn          | zeichnen zeichnet gezeichnet    | person | animal plant building | gern
build built built        | bauen baut gebaut               | adult | building property boat made bridge | passive
plant                    | pflanzen pflanzt gepflanzt      | adult | plant | passive
answer                   | beantworten beantwortet beantwortet | person | question mail | passive
understand understood understood | verstehen versteht verstanden | person | text matter joke | simple
call                     | an~rufen ruft angerufen         | person | person | moment
invite                   | ein~laden lädt eingeladen       | person | person | passive
pick~up                  | ab~holen holt abgeholt          | adult | person mail | passive aim
meet met met             | treffen trifft getroffen        | person | person | place aim moment
kiss                     | küssen küsst geküsst            | person | kin child prince princess |
ask                      | fragen fragt gefragt            | person | person |
"""

DATIVE = """
help         | helfen hilft geholfen             | person | person | place aim gern
thank        | danken dankt gedankt              | person | person |
answer       | antworten antwortet geantwortet   | person | person |
follow       | folgen folgt gefolgt s            | person pet | person animal |
congratulate | gratulieren gratuliert gratuliert | person | person | aim
listen+to    | zu~hören hört zugehört            | person | person |
trust        | vertrauen vertraut vertraut       | person | person | state
belong+to    | gehören gehört gehört             | goods small pet property | person | state
"""

# One gives somebody something; those marked "to" say in English: something to somebody.
DITRANSITIVE = """
give gave given        | geben gibt gegeben            | person | goods small snack served money |
show showed shown      | zeigen zeigt gezeigt          | person | goods view chamber clothes pet |
send sent sent         | schicken schickt geschickt    | person | mail gift money photo flower |
bring brought brought  | bringen bringt gebracht       | person | food drink dishes chair |
lend lent lent         | leihen leiht geliehen         | person | book bag umbrella camera hat car bicycle coat money |
tell told told         | erzählen erzählt erzählt      | person | told |
explain                | erklären erklärt erklärt      | person | matter joke | to
recommend              | empfehlen empfiehlt empfohlen | adult | novel movie restaurant hotel museum | to
read read read         | vor~lesen liest vorgelesen    | person | text | to
"""

# The fourth column begins with the two prepositions and the German case.
PREPOSITIONAL = """
wait                   | warten wartet gewartet      | person | for auf acc person transport mail answer |
talk                   | sprechen spricht gesprochen | person | about über acc person show matter told text |
talk                   | sprechen spricht gesprochen | person | to mit dat person | aim
think thought thought  | denken denkt gedacht        | person | of an acc person pet matter told | happens
dream                  | träumen träumt geträumt     | person | of von dat pet farm castle island car house | happens
play                   | spielen spielt gespielt     | child | with mit dat pet toy child |
laugh                  | lachen lacht gelacht        | person | about über acc joke mistake story | happens
"""

MOTION = """
go went gone         | gehen geht gegangen s       | person | | goal home moment
drive drove driven   | fahren fährt gefahren s     | adult | | goal home city
run ran run running  | rennen rennt gerannt s      | person | | goal home
come came come       | kommen kommt gekommen s     | person | | goal home moment
travel               | reisen reist gereist s      | adult | | city gern
fly flew flown       | fliegen fliegt geflogen s   | adult | | city gern
"""

# Those who are somewhere; put is legen or stellen, as the thing lies or stands.
POSTURE = """
be was been being    | sein ist gewesen s          | person small lay stand pet | | simple
live                 | wohnen wohnt gewohnt        | person | | state lasts
stay                 | bleiben bleibt geblieben s  | person | | lasts
sit sat sat sitting  | sitzen sitzt gesessen       | person pet | | lasts
stand stood stood    | stehen steht gestanden      | person stand | | lasts
lie lay lain         | liegen liegt gelegen        | lay pet | | lasts
put put put putting  | legen legt gelegt           | person | lay |
put put put putting  | stellen stellt gestellt     | person | stand |
"""

# What takes a clause: with dass, ob or a question word, or with zu and an infinitive.
SPEECH = """
know knew known        | wissen weiß gewusst            | person | that whether | state
think thought thought  | glauben glaubt geglaubt        | person | that | state
say said said          | sagen sagt gesagt              | person | that | state
hope                   | hoffen hofft gehofft           | person | that to | state
ask                    | fragen fragt gefragt           | person | whether |
try                    | versuchen versucht versucht    | person | to |
decide                 | beschließen beschließt beschlossen | person | to | event
forget forgot forgotten forgetting | vergessen vergisst vergessen | person | to | event
promise                | versprechen verspricht versprochen | person | to | event
rain                   | regnen regnet geregnet         | weather | |
snow                   | schneien schneit geschneit     | weather | |
cost cost cost         | kosten kostet gekostet         | clothes dishes plant load toy book novel lamp clock | price | state
"""

# English: an auxiliary with what follows it, or the present and past of a full verb | German: the
# five forms for ich, du, er, wir, sie | the adverbs it goes with | the German lemma
MODALS = """
can               | kann kannst kann können können         | later | können
could             | konnte konntest konnte konnten konnten | past | können
should            | sollte solltest sollte sollten sollten | later | sollen
have to, has to   | muss musst muss müssen müssen          | later | müssen
had to            | musste musstest musste mussten mussten | past | müssen
want to, wants to | will willst will wollen wollen         | later | wollen
wanted to         | wollte wolltest wollte wollten wollten | past | wollen
be allowed to     | darf darfst darf dürfen dürfen         | later | dürfen
would like to     | möchte möchtest möchte möchten möchten | later | möchten
will              | werde wirst wird werden werden         | future | werden
"""
